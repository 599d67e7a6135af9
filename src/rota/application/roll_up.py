"""Adding up what happened, for reports: by the leader, behind everybody's back, and each task once.

Tasks are passed in the order of their ids, which is about the order in which they were made. Those that have ended are
counted, those that live are left behind, and looked at again until they have ended. So what this costs grows with what
happens and with what lives, never with the history, and a task pays nothing for it: there is no index by end, and
nothing is written when one ends (ADR-0040).

Each step moves the progress and adds to the sums in one transaction, from the progress that it was worked out from: a
step is taken once, be there two leaders or an answer that was lost. The progress keeps behind the clock, because a task
is committed a little after its id was issued. One that came later still is found when those left behind are looked at,
if it lives then.

The first leader after an upgrade begins with the oldest task, and rests as long as it works until it has caught up.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from rota.application.ports.report import ReportStore
from rota.application.ports.system import Clock
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.domain.errors import InvalidError
from rota.domain.ids import first_id_at
from rota.domain.rollup import Progress, Step, replace_left, sum_up

SETTLED = timedelta(
    seconds=15
)  # after its id was issued, a task is committed or given up: three deadlines of the store
LOOK_EVERY = timedelta(seconds=15)
REST = 20  # times as long as a look took: however much lives, it is a twentieth of the leader's time
PAGE = 500  # tasks in a step, or fewer where what it writes is more than the store takes at once
CHUNKS = 20  # lists of those left behind that are looked at together
MOST_LIVE = 2 * CHUNKS * PAGE

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class RollUp:
    """One for a process; where it stands is in the store."""

    reports: ReportStore
    time: StoreTime
    clock: Clock
    page: int = PAGE
    chunks: int = CHUNKS
    most_live: int = MOST_LIVE
    _next_look: float = field(default=float("-inf"))

    async def __call__(self, reign: Reign) -> None:
        await self._sweep(reign)
        began_at = self.clock.monotonic()
        if began_at >= self._next_look and await self._look(reign):
            took = self.clock.monotonic() - began_at
            self._next_look = began_at + took + max(LOOK_EVERY.total_seconds(), REST * took)

    async def _sweep(self, reign: Reign) -> None:
        """Pass the tasks that are new since the last time, until there are no more."""
        passed = 0
        while True:
            began_at = self.clock.monotonic()
            found = await self._pass_page(reign)
            passed += found
            if found < self.page:
                break
            await self.clock.sleep(timedelta(seconds=self.clock.monotonic() - began_at))
        log.debug("report.passed", tasks=passed)

    async def _pass_page(self, reign: Reign, *, looked_at: datetime | None = None) -> int:
        """Pass some of them; how many. With `looked_at`, all those left behind were looked at since then."""
        progress, before = await self.reports.find_progress(), first_id_at(self.time.now() - SETTLED)
        found = await self.reports.list_facts(after=progress.swept_to, before=before, limit=self.page)
        if not found and looked_at is None:
            return 0
        reached = found[-1].id if len(found) == self.page else max(progress.swept_to, before - 1)
        live = tuple(one.id for one in found if one.status is None)
        step = Step(
            before=progress,
            after=Progress(progress.version + 1, reached, looked_at or progress.looked_at),
            added=sum_up(new=found, ended=[one for one in found if one.status is not None]),
            left={live[0]: live} if live else {},
        )
        await self._take(step, reign)
        return len(found)

    async def _look(self, reign: Reign) -> bool:
        """Count those left behind that have ended since. False: another leader is at it."""
        began_at, place = self.time.now(), 0
        end = (await self.reports.find_progress()).swept_to
        while place < end:
            reached = await self._look_on(place, reign)
            if reached is None:
                return False
            place = reached
        await self._pass_page(reign, looked_at=began_at)
        return True

    async def _look_on(self, place: int, reign: Reign) -> int | None:
        """Look at some of them, behind a place; how far that was, or None where another was faster."""
        progress = await self.reports.find_progress()
        chunks = await self.reports.list_left(after=place, limit=self.chunks + 1)
        upto = chunks.pop().key - 1 if len(chunks) > self.chunks else progress.swept_to
        live = await self.reports.list_live_ids(after=place, upto=upto, limit=self.most_live)
        if len(live) == self.most_live:
            upto = live[-1]
        known = {one for chunk in chunks for one in chunk.ids}
        changed = [one for one in sorted(known ^ set(live)) if one <= upto]
        if len(changed) > self.page:
            upto = changed[self.page - 1]
        facts = await self.reports.load_facts(changed[: self.page])
        alive = sorted({one for one in live if one <= upto} | {one.id for one in facts if one.status is None})
        left = replace_left(chunks, alive, upto=upto, most=self.page)
        if not left:
            return upto
        step = Step(
            before=progress,
            after=replace(progress, version=progress.version + 1),
            added=sum_up(
                new=[one for one in facts if one.id not in known],
                ended=[one for one in facts if one.id in known and one.status is not None],
            ),
            left=left,
        )
        return upto if await self._take(step, reign) else None

    async def _take(self, step: Step, reign: Reign) -> bool:
        """False: another was faster. The next step begins from what is stored."""
        reign.check()
        try:
            is_taken = await self.reports.roll_up(step)
        except InvalidError:  # the sums of very many types are longer than a transaction of etcd: smaller steps, then
            self.page = max(self.page // 2, 1)
            raise
        if not is_taken:
            log.info("report.step_stale", version=step.before.version)
        return is_taken
