"""What somebody has to do for an etcd that works hard: let it forget its history, and tell when it fills up.

etcd keeps every value that a key ever had until it is told to compact, and refuses all writes once its quota is full.
Every process of Rota looks every now and then at one key, in which the last one that did this wrote the revision of
then. Whoever finds it as it has seen or written it last writes the present one, and lets everything before the old one
be forgotten. Who does that warns as well and looks again soon; whoever finds that another does looks later. So one does
the work and asks how full it is, and the others, however many, cost next to nothing. The history is kept for one to two
rounds, and longer once where the one that did it is gone.

With users, an etcd of 2026 or later lets only its root do that. Then somebody else must, or it fills up. Whether
anybody does is found out by asking: who was refused writes down when, and while etcd still knows what it knew then,
nothing was forgotten since. After a while that is told. It is written down for whoever does it next, and the doctor.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from rota.application.ports.system import Clock
from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.alarms import REPLACE, read_alarms
from rota.infrastructure.etcd.client import CompactedError, EtcdClient, ForbiddenError
from rota.infrastructure.etcd.ops import get, get_as_of, is_unchanged, put
from rota.infrastructure.instants import from_us, to_us

EVERY = timedelta(seconds=15)
SELDOM = 3 * EVERY  # where another does it
USUAL_QUOTA = 2 * 1024**3  # bytes, unless --quota-backend-bytes says otherwise, which etcd tells since 3.6
NEARLY_FULL = 0.75
KEPT_FOR = timedelta(minutes=15)  # an etcd that is told to keep five minutes keeps ten at times
REFUSED = "/refused"  # follows the key of what was compacted
COMPACT_BY_ITSELF = (
    "start each member with --auto-compaction-mode=periodic --auto-compaction-retention=5m, or grant Rota's user the "
    "role root"
)

log = structlog.get_logger(__name__)


class Upkeep:
    """One process's part in it."""

    def __init__(self, client: EtcdClient, clock: Clock, *, key: str) -> None:
        self._client = client
        self._clock = clock
        self._key = key
        self._seen = 0
        self._has_warned = False
        self._has_told_of_alarms = False
        self._has_told_of_history = False

    async def run(self) -> None:
        """Look for ever; an etcd that is away is looked at again."""
        pause = EVERY
        while True:
            await self._clock.sleep(pause)
            try:
                pause = EVERY if await self.look() else SELDOM
            except UnavailableError as exc:
                log.warning("etcd.upkeep_failed", error=str(exc))

    async def look(self) -> bool:
        """Compact, if nobody else has since the last look. Whether this process did."""
        done = await self._client.read([get(self._key)])
        kvs = done.answers[0].range.kvs
        written = kvs[0].mod_revision if kvs else 0
        is_due, self._seen = not kvs or written == self._seen, written
        if not is_due:
            return False
        await self.warn()  # first: one that is full refuses the mark
        mark = put(self._key, str(done.revision).encode())
        marked = await self._client.write([mark], when=[is_unchanged(self._key, written)])
        if not marked.is_met:
            return False
        self._seen = marked.revision
        if kvs and kvs[0].value.isdigit():
            await self._compact(int(kvs[0].value))
        return True

    async def warn(self) -> None:
        """Say once that it is nearly full, or refuses writes already, and of any other alarm, if it tells our user."""
        try:
            status = await self._client.status()
        except ForbiddenError:
            return
        quota, alarms = status.db_size_quota or USUAL_QUOTA, read_alarms(status.errors)
        is_full = bool(alarms.of_space) or status.db_size_in_use > NEARLY_FULL * quota
        if is_full and not self._has_warned:
            space = list(alarms.of_space)
            log.warning("etcd.nearly_full", bytes_in_use=status.db_size_in_use, quota=quota, alarms=space)
        self._has_warned = is_full
        if alarms.others and not self._has_told_of_alarms:
            log.warning("etcd.alarm", alarms=list(alarms.others), fix=REPLACE)
        self._has_told_of_alarms = bool(alarms.others)

    async def _compact(self, revision: int) -> None:
        try:
            await self._client.compact(revision)
        except ForbiddenError as exc:
            await self._doubt(exc)

    async def _doubt(self, refused: ForbiddenError) -> None:
        """Say once that nobody compacts it, when that has lasted."""
        now = self._clock.now()
        since = await find_kept_since(self._client, self._key)
        if since is None:
            self._has_told_of_history = False
            await self._client.write([put(f"{self._key}{REFUSED}", str(to_us(now)).encode())])
        elif now - since >= KEPT_FOR and not self._has_told_of_history:
            log.warning("etcd.history_kept", error=str(refused), since=since.isoformat(), fix=COMPACT_BY_ITSELF)
            self._has_told_of_history = True


async def find_kept_since(client: EtcdClient, key: str) -> datetime | None:
    """When somebody was refused to compact it, if it has forgotten nothing since; by the clock of who wrote that down.
    None: nobody was, or it has forgotten what it knew then."""
    found = (await client.read([get(f"{key}{REFUSED}")])).answers[0].range.kvs
    if not found:
        return None
    try:
        await client.read([get_as_of(key, found[0].mod_revision)])
        return from_us(int(found[0].value))
    except (CompactedError, ValueError):
        return None


@asynccontextmanager
async def looked_after(client: EtcdClient, clock: Clock, *, prefix: str) -> AsyncIterator[None]:
    """Look after an etcd while the context lasts."""
    keeping = asyncio.create_task(Upkeep(client, clock, key=f"/{prefix}/compacted").run())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
