"""Operations of etcd are bytes: read by the messages of its protocol they say what was meant."""

import pytest

from rota._proto.etcd import wire_pb2 as wire
from rota.infrastructure.etcd.ops import (
    GROUP,
    Op,
    cut,
    delete,
    get,
    has_value,
    is_absent,
    is_unchanged,
    pack,
    put,
    size_of,
    transaction,
    when,
)

LENGTHS = (0, 1, 127, 128, 2047, 2048, 16_383, 16_384, 70_000)


def read(op: Op) -> wire.RequestOp:
    return wire.RequestOp.FromString(op)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_put_is_read_as_it_was_meant_however_long_it_is(length: int) -> None:
    key, value = "/ключ", b"\x00\xff" * length
    assert read(put(key, value)) == wire.RequestOp(put=wire.PutRequest(key=key.encode(), value=value))
    bound = wire.PutRequest(key=key.encode(), value=value, lease=2**62)
    assert read(put(key, value, lease=2**62)) == wire.RequestOp(put=bound)


def test_gets_and_deletes_name_one_key() -> None:
    assert read(get("/a")) == wire.RequestOp(range=wire.RangeRequest(key=b"/a"))
    assert read(delete("/a")) == wire.RequestOp(delete=wire.DeleteRequest(key=b"/a"))


@pytest.mark.parametrize("length", LENGTHS)
def test_conditions_are_read_as_they_were_meant(length: int) -> None:
    key = "/" + "k" * length
    absent = wire.Compare(target=wire.Compare.CREATE, key=key.encode(), create_revision=0)
    assert wire.Compare.FromString(is_absent(key)) == absent
    equal = wire.Compare(target=wire.Compare.VALUE, key=key.encode(), value=b"v" * length)
    assert wire.Compare.FromString(has_value(key, b"v" * length)) == equal


def test_a_transaction_holds_others() -> None:
    asked = transaction(
        [is_unchanged("/a", 7)], [when([is_absent("/b")], [put("/b"), delete("/c")])], otherwise=[get("/a")]
    )
    inner = wire.TxnRequest(
        compare=[wire.Compare.FromString(is_absent("/b"))], success=[read(put("/b")), read(delete("/c"))]
    )
    assert wire.TxnRequest.FromString(asked) == wire.TxnRequest(
        compare=[wire.Compare(target=wire.Compare.MOD, key=b"/a", mod_revision=7)],
        success=[wire.RequestOp(txn=inner)],
        failure=[read(get("/a"))],
    )


def test_a_large_batch_is_nested_in_order_but_for_the_first() -> None:
    ops = [put(f"/{number}") for number in range(2 * GROUP + 2)]
    first, *nested = map(read, pack(ops))
    groups = [one.txn.success for one in nested]
    assert [len(group) for group in groups] == [GROUP, GROUP, 1]
    assert [first, *(op for group in groups for op in group)] == list(map(read, ops))


def test_what_is_cut_is_no_larger_than_it_was_said_to_be() -> None:
    ops = [put(f"/{number}", b"v" * 400_000) for number in range(7)]
    parts = [[op for group in groups for op in group] for groups in cut([op] for op in ops)]
    assert [op for part in parts for op in part] == ops
    assert [len(part) for part in parts] == [3, 3, 1]
    assert all(len(transaction((), part)) <= size_of(part) for part in parts)
