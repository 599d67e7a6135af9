"""The store's part of a Redis: its keys, how documents are read, and how they are changed.

    task:{id}                    a task: where it stands, what was asked, and each of its steps, a line of JSON each
    task:{id}:payload            its payload, if that is long
    task:{id}:record             hash: long results and errors by the version of their step; the first steps of many
    task:{id}:lines              hash: the lines that its attempts wrote, by place
    tasks:live                   sorted set, all of score 0: what goes on; ids of 19 digits, so that they are in order
    tasks:waiting, tasks:running sorted sets by due time: what waits, and what runs with its deadline
    tasks:ended:{tenant}:{STATUS}, tasks:type:{tenant}:{type}   ids in order: what has ended so; all of a type
    tasks:count, tasks:count:ended   hashes: how many go on, and how many have ended ever, by tenant:STATUS
    tasks:key:{tenant}:{key}     the id of the task that an idempotency key stands for, and the digest of the request
    tenants                      set of those that have tasks or an audit
    configs                      hash: task configs by tenant:type
    configs:names:{tenant}       their types in order
    configs:fires                time:tenant:type in order: when each fires next
    configs:revisions:{tenant}:{type}   hash: the definitions by their numbers, and the last of these
    occurrences:{tenant}:{type}  sorted set by target time; `occurrences` has the oldest time of each schedule
    calendars, calendars:names:{tenant}, calendars:uses:{tenant}:{name}   as configs; the types that name a calendar
    audit:{tenant}               id and entry, in order
    report, report:left, report:sums…   how far reports go, whom they left behind, and their sums (`reports.py`)
    workers:registry, processes, tokens, slots, secrets, leadership   hashes

All begin with the prefix of the coordinator's keys as their hash tag, so that a cluster keeps them on one node, where a
script may use several. Documents are JSON. What is not said by one command is decided by reading, and written by a
script under the condition that what was read is still so (`Change`); where it is not, it is decided anew. The steps of
tasks, which are the bulk, have a script of their own that knows each step by its fence (`advance.lua`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rota.domain.audit import AuditEntry
from rota.domain.errors import ConfigError
from rota.domain.ids import TaskId, TenantId
from rota.domain.task import TaskStatus
from rota.infrastructure.coordination.redis_client import Part, RedisClient, Script, load_script
from rota.infrastructure.instants import from_us

T = TypeVar("T")
Found = Sequence[bytes | None]
Place = tuple[str, str]  # a hash, and a field of it
DEFAULT_PREFIX = "rota"
ID_DIGITS = 19
TIME_DIGITS = 17
SHRINKING = frozenset({"HDEL", "ZREM"})  # commands that a full server takes
AT_ONCE = 500  # documents in one command: a server that answers one must not keep others waiting for long
LONG_AT_ONCE = 64  # of those that may be as long as a payload: 16 MiB


class Change:
    """What to write, and what must still be so for that: gathered for one call of the script."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._conditions: list[Part] = []
        self._writes: list[Part] = []
        self._needs_room = False

    @property
    def is_empty(self) -> bool:
        return not self._writes

    def call(self, never: str) -> tuple[list[str], list[Part]]:
        """The keys and the arguments; the key that is never there stands for all that needs memory."""
        if self._needs_room:
            self._conditions += ("room", self._number(never), b"", b"")
        return list(self._keys), [len(self._conditions) // 4, *self._conditions, *self._writes]

    def expect(self, place: Place, value: bytes | None) -> "Change":
        """A field must have this value; None: there must be none."""
        key, field = place
        kind = "absent" if value is None else "same"
        self._conditions += (kind, self._number(key), field, value or b"")
        return self

    def expect_present(self, place: Place) -> "Change":
        self._conditions += ("present", self._number(place[0]), place[1], b"")
        return self

    def expect_none(self, keys: Sequence[str]) -> "Change":
        """None of these keys, which no other condition or write has named yet, may be there."""
        if keys:
            numbers = [self._number(key) for key in keys]
            self._conditions += ("none", numbers[0], numbers[-1], b"")
        return self

    def write(self, command: str, key: str, *parts: Part) -> "Change":
        """A command that takes any number of parts; when there are very many it is run for some after the others."""
        if parts:
            self._writes += (command, self._number(key), len(parts), *parts)
            self._needs_room = self._needs_room or command not in SHRINKING
        return self

    def put(self, place: Place, value: bytes) -> "Change":
        return self.write("HSET", place[0], place[1], value)

    def remove(self, place: Place) -> "Change":
        return self.write("HDEL", *place)

    def set_all(self, values: Mapping[str, bytes]) -> "Change":
        """Texts under keys that were named one after the other before, or not at all."""
        if values:
            numbers = [self._number(key) for key in values]
            self._writes += ("SET", numbers[0], len(values), *values.values())
            self._needs_room = True
        return self

    def note(self, space: "RedisSpace", audit: Iterable[AuditEntry]) -> "Change":
        """Keep audit entries; one whose id is there already is left alone."""
        for entry in audit:
            self.write("SADD", space.tenants, entry.tenant_id)
            self.write("NOTE", space.audit(entry.tenant_id), spell(entry.id), msgspec.json.encode(entry))
        return self

    def _number(self, key: str) -> int:
        return self._keys.setdefault(key, len(self._keys) + 1)


class RedisSpace:
    """What all parts of the store work on."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ConfigError(f"the redis prefix {prefix!r} is empty or has braces; try letters, such as rota")
        self.client = client
        self._tag = f"{{{prefix}}}:"
        self._commit = load_own_script("commit")
        self.live, self.waiting, self.running = map(self.key, ("tasks:live", "tasks:waiting", "tasks:running"))
        self.counts, self.ended_counts = self.key("tasks:count"), self.key("tasks:count:ended")
        self.tenants = self.key("tenants")
        self.configs, self.fires, self.calendars = map(self.key, ("configs", "configs:fires", "calendars"))
        self.noted = self.key("occurrences")
        self._never = self.key("never")

    def key(self, name: str) -> str:
        return self._tag + name

    def task(self, task_id: int) -> str:
        return f"{self._tag}task:{task_id}"

    def payload(self, task_id: int) -> str:
        return f"{self._tag}task:{task_id}:payload"

    def record(self, task_id: int) -> str:
        return f"{self._tag}task:{task_id}:record"

    def lines(self, task_id: int) -> str:
        return f"{self._tag}task:{task_id}:lines"

    def ended(self, tenant_id: str, status: TaskStatus) -> str:
        return f"{self._tag}tasks:ended:{tenant_id}:{status}"

    def of_type(self, tenant_id: str, task_type: str) -> str:
        return f"{self._tag}tasks:type:{tenant_id}:{task_type}"

    def idempotency(self, tenant_id: str, key: str) -> str:
        return f"{self._tag}tasks:key:{tenant_id}:{key}"

    def audit(self, tenant_id: str) -> str:
        return f"{self._tag}audit:{tenant_id}"

    async def now(self) -> datetime:
        seconds, microseconds = await self.client.command("TIME")
        return from_us(int(seconds) * 1_000_000 + int(microseconds))

    async def find(self, place: Place) -> bytes | None:
        found: bytes | None = await self.client.command("HGET", *place)
        return found

    async def find_fields(self, key: str, fields: Sequence[str]) -> list[bytes | None]:
        """These fields of a hash, in order."""
        return await self.gather("HMGET", key, parts=fields)

    async def find_texts(self, keys: Sequence[str], *, at_once: int = AT_ONCE) -> list[bytes | None]:
        """What stands at these keys, in order."""
        return await self.gather("MGET", parts=keys, at_once=at_once)

    async def gather(self, *command: str, parts: Sequence[str], at_once: int = AT_ONCE) -> list[bytes | None]:
        """The answers to a command that takes many parts, asked for some of them after the others."""
        found: list[bytes | None] = []
        for start in range(0, len(parts), at_once):
            found += await self.client.command(*command, *parts[start : start + at_once])
        return found

    async def ask_each(self, commands: Sequence[Sequence[Part]], *, at_once: int = AT_ONCE) -> list[Any]:
        """The answers to many commands, in order, some in one round trip."""
        found: list[Any] = []
        for start in range(0, len(commands), at_once):
            found += await self.client.batch(commands[start : start + at_once])
        return found

    async def read_hash(self, key: str) -> dict[str, bytes]:
        """A whole hash that is small by its nature."""
        found: dict[bytes, bytes] = await self.client.command("HGETALL", key)
        return {field.decode(): value for field, value in found.items()}

    async def tenant_ids(self) -> list[TenantId]:
        return sorted(TenantId(one.decode()) for one in await self.client.command("SMEMBERS", self.tenants))

    async def commit(self, change: Change) -> bool:
        """Write all of it, or nothing: then False, for what it was decided from has changed."""
        keys, args = change.call(self._never)
        return bool(await self.client.run(self._commit, keys=keys, args=args))

    async def decide(self, places: Sequence[Place], plan: Callable[[Found], tuple[Change, T]]) -> T:
        """Read, decide what to write and to answer, and write it while all that was read is still so. Else again."""
        while True:
            found = await self.client.batch([("HGET", *place) for place in places])
            change, answer = plan(found)
            if change.is_empty:
                return answer
            for place, value in zip(places, found, strict=True):
                change.expect(place, value)
            if await self.commit(change):
                return answer

    async def change_documents(
        self, key: str, fields: Sequence[str], *, change: Callable[[bytes], bytes]
    ) -> list[bytes]:
        """Change those fields of a hash that are there, and say how they are then, in order; what somebody else changed
        meanwhile is read anew."""
        while fields:
            found = zip(fields, await self.find_fields(key, fields), strict=True)
            writing, changed = Change(), list[bytes]()
            for field, value in found:
                if value is None:
                    continue
                changed.append(wanted := change(value))
                if wanted != value:
                    writing.expect((key, field), value).put((key, field), wanted)
            if writing.is_empty or await self.commit(writing):
                return changed
        return []

    async def delete_unchanged(self, key: str, documents: Mapping[str, bytes]) -> int:
        """Delete fields of a hash that are still as they were read; says how many."""
        deleted = 0
        for field, value in documents.items():
            deleted += await self.commit(Change().expect((key, field), value).remove((key, field)))
        return deleted


def load_own_script(name: str) -> Script:
    return load_script(name, "rota.infrastructure.store.redis.scripts")


def spell(number: int) -> str:
    """An id as a member of a set that is in order."""
    return f"{number:0{ID_DIGITS}}"


def spell_time(microseconds: int) -> str:
    return f"{max(microseconds, 0):0{TIME_DIGITS}}"


def to_id(member: bytes) -> TaskId:
    return TaskId(int(member))


def present(found: Iterable[bytes | None]) -> list[bytes]:
    return [value for value in found if value is not None]
