"""What a transaction of etcd is made of, as plain functions; and how a large one is cut to pass.

etcd refuses a list of more than 128 operations or comparisons. What it counts is each list by itself, less what the
lists around it have: so a batch is nested two deep (`pack`), and thousands of operations are still one transaction, all
or nothing. Its quota counts only what is not nested, and one that is full would take a batch as if that wrote nothing:
so the first operation stays where it is. The other limit, 1.5 MiB for a request, cannot be stretched: `cut` makes
several of one, each whole in itself.

Operations and conditions are their bytes in a request. A message that holds others copies them, and a batch would be
copied four times until it is sent: a quarter of the CPU that a task took. Those that every task needs are spelled
directly, and the rest by the messages of the protocol.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

from rota._proto.etcd import wire_pb2 as wire

Op = NewType("Op", bytes)  # a `wire.RequestOp`
Condition = NewType("Condition", bytes)  # a `wire.Compare`
Answer = wire.ResponseOp
MOST_FLAT = 100  # in a list that is not nested
GROUP = (
    60  # operations in a nested list: as many groups beside them, and leaves with a few of their own, are within 128
)
MOST_OPS = 1 + GROUP * (GROUP - 1)
MOST_CONDITIONS = GROUP  # beside them
MOST_LEAF = 8  # operations in what is one of a batch
MOST_TAKEN = 3 << 19  # bytes of a request: 1.5 MiB, as etcd has it unless told otherwise
MOST_BYTES = 1_500_000  # of what we put together: etcd adds a little of its own
# How fields begin: three bits of kind, 2 for bytes and 0 for a number, and above them the number of the field.
RANGE, PUT, DELETE, TXN = b"\x0a", b"\x12", b"\x1a", b"\x22"  # of a `RequestOp`
KEY, VALUE = b"\x0a", b"\x12"  # of a `RangeRequest`, `PutRequest` or `DeleteRequest`
COMPARE, SUCCESS, FAILURE = b"\x0a", b"\x12", b"\x1a"  # of a `TxnRequest`
COMPARED_KEY, COMPARED_VALUE = b"\x1a", b"\x3a"  # of a `Compare`
IS_CREATED, HAS_VALUE = b"\x10\x01", b"\x10\x03"  # targets of a `Compare`, which is for equality
NEVER_CREATED = b"\x28\x00"  # the revision 0, at which no key was created


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
    return Op(_field(RANGE, _field(KEY, key.encode())))


def get_as_of(key: str, revision: int) -> Op:
    """What it was at that revision. `CompactedError` where nobody knows any more."""
    return _asked(wire.RangeRequest(key=key.encode(), revision=revision))


def exists(key: str) -> Op:
    """Its answer has a count and no value."""
    return _asked(wire.RangeRequest(key=key.encode(), count_only=True))


def scan(span: Span, limit: int = 0, *, keys_only: bool = False) -> Op:
    """The first keys of a span; 0: all."""
    return _asked(wire.RangeRequest(key=span.start, range_end=span.end, limit=limit, keys_only=keys_only))


def count(span: Span) -> Op:
    return _asked(wire.RangeRequest(key=span.start, range_end=span.end, count_only=True))


def put(key: str, value: bytes = b"", *, lease: int = 0) -> Op:
    if lease:
        return Op(_field(PUT, wire.PutRequest(key=key.encode(), value=value, lease=lease).SerializeToString()))
    return Op(_field(PUT, _field(KEY, key.encode()) + _field(VALUE, value)))


def keep(key: str) -> Op:
    """What stands there stays as it is, and no lease ends it any more. Where nothing does, the whole transaction fails,
    as one that got no answer."""
    return Op(_field(PUT, wire.PutRequest(key=key.encode(), ignore_value=True).SerializeToString()))


def delete(key: str) -> Op:
    return Op(_field(DELETE, _field(KEY, key.encode())))


def delete_span(span: Span, *, prev_kv: bool = False) -> Op:
    asked = wire.DeleteRequest(key=span.start, range_end=span.end, prev_kv=prev_kv)
    return Op(_field(DELETE, asked.SerializeToString()))


def transaction(conditions: Iterable[Condition], then: Iterable[Op], *, otherwise: Iterable[Op] = ()) -> bytes:
    """A `wire.TxnRequest`."""
    fields = [_field(COMPARE, condition) for condition in conditions]
    fields += [_field(SUCCESS, op) for op in then]
    fields += [_field(FAILURE, op) for op in otherwise]
    return b"".join(fields)


def when(conditions: Iterable[Condition], then: Iterable[Op]) -> Op:
    """Its answer says whether the conditions were met."""
    return Op(_field(TXN, transaction(conditions, then)))


def together(ops: Iterable[Op]) -> Op:
    """A few operations as one, so that a batch may have more of them."""
    return when((), ops)


def is_absent(key: str) -> Condition:
    return Condition(IS_CREATED + _field(COMPARED_KEY, key.encode()) + NEVER_CREATED)


def is_present(key: str) -> Condition:
    return _compared(
        wire.Compare(target=wire.Compare.CREATE, result=wire.Compare.GREATER, key=key.encode(), create_revision=0)
    )


def is_empty(span: Span) -> Condition:
    """No key of the span is there."""
    return _compared(wire.Compare(target=wire.Compare.CREATE, key=span.start, range_end=span.end, create_revision=0))


def is_created_at(key: str, revision: int) -> Condition:
    return _compared(wire.Compare(target=wire.Compare.CREATE, key=key.encode(), create_revision=revision))


def is_unchanged(key: str, revision: int) -> Condition:
    """The key was last written at this revision; 0: it is absent."""
    return _compared(wire.Compare(target=wire.Compare.MOD, key=key.encode(), mod_revision=revision))


def none_created_after(span: Span, revision: int) -> Condition:
    """All keys of the span that are there were there at this revision."""
    return _compared(
        wire.Compare(
            target=wire.Compare.CREATE,
            result=wire.Compare.LESS,
            key=span.start,
            range_end=span.end,
            create_revision=revision + 1,
        )
    )


def none_written_after(span: Span, revision: int) -> Condition:
    """All keys of the span that are there were last written at this revision or before."""
    return _compared(
        wire.Compare(
            target=wire.Compare.MOD,
            result=wire.Compare.LESS,
            key=span.start,
            range_end=span.end,
            mod_revision=revision + 1,
        )
    )


def has_value(key: str, value: bytes) -> Condition:
    return Condition(HAS_VALUE + _field(COMPARED_KEY, key.encode()) + _field(COMPARED_VALUE, value))


def put_missing(key: str, value: bytes = b"") -> Op:
    """A put that leaves alone what is there."""
    return when([is_absent(key)], [put(key, value)])


def pack(ops: Sequence[Op]) -> list[Op]:
    """The same operations in lists that etcd takes; at most `MOST_OPS` of them."""
    if len(ops) <= MOST_FLAT:
        return list(ops)
    return [ops[0], *(when((), ops[start : start + GROUP]) for start in range(1, len(ops), GROUP))]


def unpack(answers: Iterable[Answer], *, number: int) -> list[Answer]:
    """The answers to so many operations that were packed."""
    if number <= MOST_FLAT:
        return list(answers)
    first, *groups = answers
    return [first, *(answer for group in groups for answer in group.txn.responses)]


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


def size_of(ops: Sequence[Op]) -> int:
    """The bytes of operations in a request, with what holds them together."""
    return sum(map(len, ops)) + 6 * len(ops)


def is_put(event: wire.WatchEvent) -> bool:
    return event.type == wire.WatchEvent.PUT


def _field(tag: bytes, content: bytes) -> bytes:
    """A field of a message that holds bytes or another message."""
    length = len(content)
    return tag + (LENGTHS[length] if length < len(LENGTHS) else _spell(length)) + content


def _spell(number: int) -> bytes:
    """A number as the protocol has it: seven bits in each byte, the lowest first, the last one below 128."""
    spelled = bytearray()
    while number > 127:
        spelled.append(number & 127 | 128)
        number >>= 7
    spelled.append(number)
    return bytes(spelled)


LENGTHS = [_spell(number) for number in range(2048)]  # of nearly all fields


def _asked(what: wire.RangeRequest) -> Op:
    return Op(_field(RANGE, what.SerializeToString()))


def _compared(what: wire.Compare) -> Condition:
    return Condition(what.SerializeToString())
