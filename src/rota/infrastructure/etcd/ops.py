"""What a transaction of etcd is made of, as plain functions; and how a large one is cut to pass.

etcd refuses a list of more than 128 operations or comparisons. What it counts is each list by itself, less what the
lists around it have: so a batch is nested two deep (`pack`), and thousands of operations are still one transaction, all
or nothing. The other limit, 1.5 MiB for a request, cannot be stretched: `cut` makes several of one, each whole in
itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rota._proto.etcd import wire_pb2 as wire

Op = wire.RequestOp
Answer = wire.ResponseOp
MOST_FLAT = 100  # in a list that is not nested
GROUP = (
    60  # operations in a nested list: as many groups beside them, and leaves with a few of their own, are within 128
)
MOST_OPS = GROUP * GROUP
MOST_CONDITIONS = GROUP  # beside them
MOST_LEAF = 8  # operations in what is one of a batch
MOST_TAKEN = 3 << 19  # bytes of a request: 1.5 MiB, as etcd has it unless told otherwise
MOST_BYTES = 1_500_000  # of what we put together: etcd adds a little of its own


@dataclass(frozen=True, slots=True)
class Span:
    """A range of keys, from one on to before another."""

    start: bytes
    end: bytes


def under(prefix: str) -> Span:
    """All keys that begin so."""
    start = prefix.encode()
    return Span(start, start[:-1] + bytes([start[-1] + 1]))  # no prefix ends in 0xff: it is text


def only(key: str) -> Span:
    """This key alone."""
    return Span(key.encode(), b"")


def get(key: str) -> Op:
    return Op(range=wire.RangeRequest(key=key.encode()))


def exists(key: str) -> Op:
    """Its answer has a count and no value."""
    return Op(range=wire.RangeRequest(key=key.encode(), count_only=True))


def scan(span: Span, limit: int = 0, *, keys_only: bool = False) -> Op:
    """The first keys of a span; 0: all."""
    return Op(range=wire.RangeRequest(key=span.start, range_end=span.end, limit=limit, keys_only=keys_only))


def count(span: Span) -> Op:
    return Op(range=wire.RangeRequest(key=span.start, range_end=span.end, count_only=True))


def put(key: str, value: bytes = b"", *, lease: int = 0) -> Op:
    return Op(put=wire.PutRequest(key=key.encode(), value=value, lease=lease))


def delete(key: str) -> Op:
    return Op(delete=wire.DeleteRequest(key=key.encode()))


def delete_span(span: Span, *, prev_kv: bool = False) -> Op:
    return Op(delete=wire.DeleteRequest(key=span.start, range_end=span.end, prev_kv=prev_kv))


def when(conditions: Iterable[wire.Compare], then: Iterable[Op]) -> Op:
    """Its answer says whether the conditions were met."""
    return Op(txn=wire.TxnRequest(compare=conditions, success=then))


def together(ops: Iterable[Op]) -> Op:
    """A few operations as one, so that a batch may have more of them."""
    return when((), ops)


def is_absent(key: str) -> wire.Compare:
    return wire.Compare(target=wire.Compare.CREATE, key=key.encode(), create_revision=0)


def is_present(key: str) -> wire.Compare:
    return wire.Compare(target=wire.Compare.CREATE, result=wire.Compare.GREATER, key=key.encode(), create_revision=0)


def is_empty(span: Span) -> wire.Compare:
    """No key of the span is there."""
    return wire.Compare(target=wire.Compare.CREATE, key=span.start, range_end=span.end, create_revision=0)


def is_created_at(key: str, revision: int) -> wire.Compare:
    return wire.Compare(target=wire.Compare.CREATE, key=key.encode(), create_revision=revision)


def is_unchanged(key: str, revision: int) -> wire.Compare:
    """The key was last written at this revision; 0: it is absent."""
    return wire.Compare(target=wire.Compare.MOD, key=key.encode(), mod_revision=revision)


def none_created_after(span: Span, revision: int) -> wire.Compare:
    """All keys of the span that are there were there at this revision."""
    return wire.Compare(
        target=wire.Compare.CREATE,
        result=wire.Compare.LESS,
        key=span.start,
        range_end=span.end,
        create_revision=revision + 1,
    )


def none_written_after(span: Span, revision: int) -> wire.Compare:
    """All keys of the span that are there were last written at this revision or before."""
    return wire.Compare(
        target=wire.Compare.MOD,
        result=wire.Compare.LESS,
        key=span.start,
        range_end=span.end,
        mod_revision=revision + 1,
    )


def has_value(key: str, value: bytes) -> wire.Compare:
    return wire.Compare(target=wire.Compare.VALUE, key=key.encode(), value=value)


def put_missing(key: str, value: bytes = b"") -> Op:
    """A put that leaves alone what is there."""
    return when([is_absent(key)], [put(key, value)])


def pack(ops: Sequence[Op]) -> list[Op]:
    """The same operations in lists that etcd takes; at most `MOST_OPS` of them."""
    if len(ops) <= MOST_FLAT:
        return list(ops)
    return [when((), ops[start : start + GROUP]) for start in range(0, len(ops), GROUP)]


def unpack(answers: Iterable[Answer], *, number: int) -> list[Answer]:
    """The answers to so many operations that were packed."""
    if number <= MOST_FLAT:
        return list(answers)
    return [answer for group in answers for answer in group.txn.responses]


def cut(groups: Iterable[Sequence[Op]]) -> Iterator[list[Sequence[Op]]]:
    """Gather groups of operations, none of which is torn, into as few transactions as etcd takes."""
    gathered: list[Sequence[Op]] = []
    ops = size = 0
    for group in groups:
        own = size_of(group)
        if gathered and (ops + len(group) > MOST_OPS or size + own > MOST_BYTES):
            yield gathered
            gathered, ops, size = [], 0, 0
        gathered.append(group)
        ops, size = ops + len(group), size + own
    if gathered:
        yield gathered


def size_of(ops: Iterable[Op]) -> int:
    """The bytes of operations in a request, with what holds them together."""
    return sum(op.ByteSize() + 6 for op in ops)


def is_put(event: wire.WatchEvent) -> bool:
    return event.type == wire.WatchEvent.PUT
