"""The store's part of an etcd: its keys, how documents are read, and how they are changed.

    /rota/tasks/{id}                     what was asked: written once. Ids have 19 digits, so that keys are in order
    /rota/payloads/{id}                  its payload, if that is long
    /rota/live/{id}                      where a task stands that has not ended
    /rota/due/{w|r|b}/{due}_{id}         the same by time: tasks that wait, run, are blocked; the value has the version
    /rota/results/{id}                   how a task ended, with its last log entry
    /rota/errors/{id}                    its last error, while it goes on
    /rota/ended/{tenant}/{status}/{id}   an empty key for each task that has ended: they are counted
    /rota/logs/{id}/{place}              what else is in its record
    /rota/keys/{tenant}/{key}            the task that an idempotency key stands for
    /rota/purged                         how many ended tasks were purged, by tenant and status
    /rota/calendar_uses/{tenant}/{calendar}/{type}   an empty key for each config whose schedule names a calendar
    /rota/rollups/{grain}/{start}/{tenant}/{type}    what happened in a piece of time, for reports
    /rota/report_progress, report_left/{id}          how far that goes, and which tasks lived when they were passed
    /rota/calendars, configs, revisions, fires, occurrences, workers, tokens, audit, cluster_audit, processes,
    slots, secrets, leadership

A document is JSON. A change is a transaction under the condition that what it was decided from is still so; where it is
not, it is decided anew (`decide`). Batches of tasks have a condition for each of them (`tasks.py`).

etcd has no clock that can be asked: the time is the node's own, and the clocks of the nodes must agree, as NTP has
them. Ids stay unique whatever they say; a task of one node may be a little late, or early, on another.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote, unquote

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.system import Clock
from rota.domain.errors import ConfigError
from rota.domain.ids import MAX_ID, TaskId, TenantId, first_id_at
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import MOST_OPS, Op, Span, count, get, is_present, is_unchanged, put, scan, under
from rota.infrastructure.store.etcd.unison import Unison

T = TypeVar("T")
KV = wire.KeyValue
Found = Sequence[KV | None]
DEFAULT_PREFIX = "rota"
ID_DIGITS = 19
TIME_DIGITS = 17
PAGE = 1000
FIRST_WINDOW = 60_000  # milliseconds
WIDER = 8
FINEST = 16  # parts of the first window: no stretch is halved below it
FULL = 4  # times what is needed: then a narrower window will do


@dataclass(frozen=True, slots=True)
class Line:
    """Documents in the order of a number that grows with time."""

    between: Callable[[int, int], Span]  # the keys from one number to before another
    soon: int  # where the future begins
    window: int  # the shortest stretch of it to look for documents in


class EtcdSpace:
    """What all parts of the store work on."""

    def __init__(self, client: EtcdClient, clock: Clock, *, prefix: str = DEFAULT_PREFIX) -> None:
        if not prefix or prefix != prefix.strip("/"):
            raise ConfigError(f"the etcd prefix {prefix!r} is empty or has slashes around it; try rota")
        self.client = client
        self.unison = Unison(clock)
        self._clock = clock
        self._root = f"/{prefix}/"
        self._own: dict[str, KV] = {}  # documents that hardly anybody else changes, as they were written last

    def now(self) -> datetime:
        return self._clock.now()

    def key(self, kind: str, *names: str | int) -> str:
        """The key of a document; names that people choose may have any character."""
        return "/".join([f"{self._root}{kind}", *map(spell, names)])

    def all(self, kind: str, *names: str | int) -> Span:
        """All keys below a name."""
        return under(f"{self.key(kind, *names)}/")

    def names_after(self, name: str, kind: str, *names: str) -> Span:
        """The keys below a name whose own names, of letters, digits and `_ . -`, come after another."""
        return Span(f"{self.key(kind, *names, name)}\0".encode(), self.all(kind, *names).end)

    def ids_from(self, kind: str, first: int, *, before: int = MAX_ID + 1) -> Span:
        """The keys of a kind whose ids are in a range."""
        end = f"{self.key(kind)}0" if before > MAX_ID else self.key(kind, before)  # 0 follows the slash
        return Span(self.key(kind, max(first, 0)).encode(), end.encode())

    async def find(self, key: str) -> KV | None:
        return (await self.find_all([key]))[0]

    async def find_all(self, keys: Sequence[str]) -> list[KV | None]:
        """What stands at these keys, in order."""
        found: list[KV | None] = []
        for start in range(0, len(keys), MOST_OPS):
            done = await self.client.read([get(key) for key in keys[start : start + MOST_OPS]])
            found += [answer.range.kvs[0] if answer.range.kvs else None for answer in done.answers]
        return found

    async def find_ids(self, kinds: Sequence[str], ids: Iterable[int]) -> list[dict[TaskId, KV]]:
        """What there is of each kind by id. Ids that follow each other, as those of a batch do, are read as one."""
        runs = runs_of(ids)
        asked = [self._ask_run(kind, run) for kind in kinds for run in runs]
        found: list[list[KV]] = []
        for start in range(0, len(asked), MOST_OPS):
            done = await self.client.read(asked[start : start + MOST_OPS])
            found += [list(answer.range.kvs) for answer in done.answers]
        of_kind = (found[number * len(runs) : (number + 1) * len(runs)] for number in range(len(kinds)))
        return [{id_of(kv): kv for kvs in some for kv in kvs} for some in of_kind]

    async def scan(self, span: Span, limit: int | None = None, *, keys_only: bool = False) -> list[KV]:
        """The keys of a span in order, up to so many, read in pages."""
        found: list[KV] = []
        while limit is None or len(found) < limit:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            page = (await self.client.read([scan(span, size, keys_only=keys_only)])).answers[0].range
            found += page.kvs
            if not page.more:
                break
            span = Span(page.kvs[-1].key + b"\0", span.end)
        return found

    async def scan_newest(self, kind: str, *, below: int, least: int, needed: int) -> tuple[list[KV], int]:
        """Documents by id, newest first: about so many, and the id down to which they are all."""
        window = FIRST_WINDOW << 22
        soon = first_id_at(self.now()) + window
        line = Line(lambda lower, upper: self.ids_from(kind, lower, before=upper), soon, window)
        return await self.scan_latest(line, below=below, least=least, needed=needed)

    async def scan_latest(self, line: "Line", *, below: int, least: int, needed: int) -> tuple[list[KV], int]:
        """Documents of a line, latest first: about so many, and the number down to which they are all.

        etcd cannot read backwards but by reading everything, so this looks for a stretch of time that holds enough."""
        if below > line.soon:  # of the future: hardly any
            future = await self.scan(line.between(max(line.soon, least), below))
            if future or line.soon <= least:
                return future[::-1], max(line.soon, least)
            below = line.soon
        lower = await self._find_lower(line, below=below, least=least, needed=needed)
        found = await self.scan(line.between(lower, below))
        return found[::-1], lower

    async def decide(self, keys: Sequence[str], plan: Callable[[Found], tuple[Sequence[Op], T]]) -> T:
        """Read, decide what to write and to answer, and write it while all that was read is still so. Else again."""
        while True:
            found = await self.find_all(keys)
            ops, answer = plan(found)
            if not ops or await self.write_if(keys, found, ops=ops):
                return answer

    async def decide_own(self, key: str, plan: Callable[[KV | None], tuple[bytes | None, T]]) -> T:
        """`decide` for one document, which is hardly ever changed by others: it is not read while it is as this process
        has written it last. The plan says what to write, if anything."""
        known = self._own.pop(key, None)
        is_read = known is None
        while True:
            found = await self.find(key) if is_read else known
            value, answer = plan(found)
            if value is not None:
                done = await self.client.write([put(key, value)], when=[is_unchanged(key, revision_of(found))])
                if done.is_met:
                    self._own[key] = KV(key=key.encode(), value=value, mod_revision=done.revision)
                    return answer
            elif is_read:
                return answer
            is_read = True

    async def write_if(
        self, keys: Sequence[str], found: Found, *, ops: Sequence[Op], needed: Sequence[str] = ()
    ) -> bool:
        """Write if these keys, a few, are as they were found, and those that are needed are there."""
        unchanged = [is_unchanged(key, revision_of(kv)) for key, kv in zip(keys, found, strict=True)]
        return (await self.client.write(ops, when=[*unchanged, *map(is_present, needed)])).is_met

    def _ask_run(self, kind: str, run: tuple[int, int]) -> Op:
        first, last = run
        return get(self.key(kind, first)) if first == last else scan(self.ids_from(kind, first, before=last + 1))

    async def _find_lower(self, line: "Line", *, below: int, least: int, needed: int) -> int:
        """Counting is cheap: a stretch is made wider until it holds enough, and halved until it holds not much more."""
        width, narrow, wide = line.window, 0, 0
        while True:
            lower = max(below - width, least, 0)
            number = (await self.client.read([count(line.between(lower, below))])).answers[0].range.count
            if number < needed and lower > max(least, 0):
                narrow = width
            elif number > needed * FULL:
                wide = width
            else:
                return lower
            if wide and wide - narrow <= line.window // FINEST:
                return max(below - wide, least, 0)
            width = (narrow + wide) // 2 if wide else width * WIDER


def runs_of(ids: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of those ids that follow each other without a gap."""
    runs: list[tuple[int, int]] = []
    for one in sorted(set(ids)):
        if runs and one == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return runs


def spell(name: str | int) -> str:
    return f"{name:0{ID_DIGITS}}" if isinstance(name, int) else quote(name, safe="")


def spell_time(microseconds: int) -> str:
    return f"{max(microseconds, 0):0{TIME_DIGITS}}"


def name_of(kv: KV) -> str:
    """The last name in a key."""
    return unquote(kv.key.rpartition(b"/")[2].decode())


def id_of(kv: KV) -> TaskId:
    """The id at the end of a key, alone or after a time."""
    return TaskId(int(kv.key[-ID_DIGITS:]))


def tenant_of(kv: KV) -> TenantId:
    """The name before the last one."""
    return TenantId(unquote(kv.key.rsplit(b"/", 2)[1].decode()))


def revision_of(kv: KV | None) -> int:
    return 0 if kv is None else kv.mod_revision


def present(found: Iterable[KV | None]) -> list[KV]:
    return [kv for kv in found if kv is not None]
