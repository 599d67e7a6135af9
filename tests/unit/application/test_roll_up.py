"""The leader adds up what happened: each task once, whatever fails."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from rota.application.ports.report import RollupRange
from rota.application.roll_up import LOOK_EVERY, SETTLED, RollUp
from rota.domain.attempt import TaskResult
from rota.domain.errors import FencedError, InvalidError, StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId, first_id_at
from rota.domain.rollup import Figures, Grain, Step
from rota.testing.faults import Fault
from tests.support.builders import MINUTE
from tests.support.scene import Scene, a_scene
from tests.support.virtual import virtually

SECOND = timedelta(seconds=1)
LATER = SETTLED + SECOND


def a_roll_up(scene: Scene, *, page: int = 3) -> RollUp:
    return RollUp(reports=scene.store.reports, time=scene.time, clock=scene.clock, page=page, chunks=2, most_live=4)


async def add(scene: Scene, number: int, *, ago: timedelta = timedelta(0)) -> list[int]:
    """So many tasks, with ids as they are issued now."""
    now = scene.clock.now()
    ids = [first_id_at(now - ago) + place for place in range(number)]
    await scene.add(*ids, created_at=now)
    return ids


async def end(scene: Scene, *task_ids: int) -> None:
    for task_id in task_ids:
        await scene.grant(task_id)
        state = await scene.state_of(task_id)
        await scene.actual_store.tasks.advance([state.succeeded(TaskResult(), at=scene.clock.now())])


async def totals(scene: Scene, grain: Grain = Grain.QUARTER) -> Figures:
    summed = Figures()
    asked = RollupRange(DEFAULT_TENANT, grain, 0, 2**62)
    for one in await scene.actual_store.reports.list_rollups(asked):
        summed.merge(one.figures)
    return summed


async def counts(scene: Scene) -> tuple[int, int]:
    summed = await totals(scene)
    return summed.submitted, summed.succeeded


async def left(scene: Scene) -> list[TaskId]:
    chunks = await scene.actual_store.reports.list_left(after=0, limit=1000)
    return [one for chunk in chunks for one in chunk.ids]


@virtually
async def test_tasks_are_counted_when_they_have_settled() -> None:
    scene = await a_scene()
    roll_up = a_roll_up(scene)
    await end(scene, *await add(scene, 7))
    await roll_up(scene.reign)
    assert await counts(scene) == (0, 0)
    await scene.pass_time(LATER.total_seconds())
    for _ in range(3):
        await roll_up(scene.reign)
        assert await counts(scene) == (7, 7)
    assert await totals(scene) == await totals(scene, Grain.HOUR) == await totals(scene, Grain.DAY)


@virtually
async def test_those_that_lived_when_they_were_passed_are_counted_when_they_end() -> None:
    scene = await a_scene()
    roll_up = a_roll_up(scene)
    tasks = await add(scene, 9)
    await end(scene, tasks[4])
    await scene.pass_time(LATER.total_seconds())
    await roll_up(scene.reign)
    assert await counts(scene) == (9, 1)
    assert await left(scene) == [*tasks[:4], *tasks[5:]]
    await end(scene, *tasks[:4], tasks[8])
    await roll_up(scene.reign)
    assert await counts(scene) == (9, 1), "those left behind are not looked at all the time"
    await scene.pass_time(LOOK_EVERY.total_seconds())
    await roll_up(scene.reign)
    assert await counts(scene) == (9, 6)
    assert await left(scene) == tasks[5:8]


@virtually
async def test_a_task_that_was_committed_late_is_found_while_it_lives() -> None:
    scene = await a_scene()
    await scene.pass_time(3600)
    roll_up = a_roll_up(scene)
    early = await add(scene, 1, ago=30 * MINUTE)
    await add(scene, 1)
    await scene.pass_time(LATER.total_seconds())
    await roll_up(scene.reign)
    late = await add(scene, 20, ago=20 * MINUTE)
    await scene.pass_time(LOOK_EVERY.total_seconds())
    await roll_up(scene.reign)
    assert await counts(scene) == (22, 0)
    await end(scene, *early, *late)
    await scene.pass_time(LOOK_EVERY.total_seconds())
    await roll_up(scene.reign)
    assert await counts(scene) == (22, 21)


@virtually
async def test_what_was_purged_before_it_was_counted_is_forgotten() -> None:
    scene = await a_scene()
    roll_up = a_roll_up(scene)
    tasks = await add(scene, 2)
    await scene.pass_time(LATER.total_seconds())
    await roll_up(scene.reign)
    await end(scene, tasks[0])
    await scene.pass_time(60)
    await scene.actual_store.tasks.purge(completed_before=scene.clock.now(), limit=10)
    await roll_up(scene.reign)
    assert await left(scene) == tasks[1:]
    assert await counts(scene) == (2, 0)


@virtually
async def test_how_far_all_is_counted_follows_the_clock_also_when_nothing_happens() -> None:
    scene = await a_scene()
    roll_up, reports = a_roll_up(scene), scene.actual_store.reports
    for _ in range(3):
        await scene.pass_time(600)
        await roll_up(scene.reign)
        until = (await reports.find_progress()).complete_until
        assert until is not None
        assert scene.clock.now() - until < 3 * MINUTE


@virtually
async def test_a_store_whose_clock_went_back_does_not_take_tasks_back() -> None:
    scene = await a_scene()
    await end(scene, *await add(scene, 2))
    await scene.pass_time(3600)
    await a_roll_up(scene)(scene.reign)
    before = await scene.actual_store.reports.find_progress()
    behind = a_roll_up(scene)
    behind.time = (await a_scene(scene.clock)).time
    known = behind.time._known
    assert known is not None
    behind.time._known = (known[0] - timedelta(hours=1), known[1])
    await behind(scene.reign)
    after = await scene.actual_store.reports.find_progress()
    assert after.swept_to == before.swept_to
    assert await counts(scene) == (2, 2)


@virtually
async def test_a_leader_that_was_replaced_writes_nothing() -> None:
    scene = await a_scene()
    await end(scene, *await add(scene, 2))
    await scene.pass_time(LATER.total_seconds())
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_roll_up(scene)(scene.reign)
    assert await counts(scene) == (0, 0)


@virtually
async def test_a_lost_answer_counts_nothing_twice() -> None:
    scene = await a_scene()
    roll_up = a_roll_up(scene)
    tasks = await add(scene, 4)
    await end(scene, *tasks[:2])
    await scene.pass_time(LATER.total_seconds())
    for fault in (Fault.EXECUTE_AND_TIMEOUT, Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT):
        scene.faults.inject("reports.roll_up", fault)
        with pytest.raises(StoreUnavailableError):
            await roll_up(scene.reign)
    await end(scene, *tasks[2:])
    await scene.pass_time(60)
    await roll_up(scene.reign)
    assert await counts(scene) == (4, 4)


class Overtaken:
    """Another leader is faster: what this one writes is stale, some times."""

    def __init__(self, scene: Scene, *, times: int) -> None:
        self._scene, self._left = scene, times

    def __getattr__(self, name: str) -> object:
        return getattr(self._scene.store.reports, name)

    async def roll_up(self, step: object) -> bool:
        if self._left:
            self._left -= 1
            await a_roll_up(self._scene)(self._scene.reign)
        return await self._scene.store.reports.roll_up(step)  # type: ignore[arg-type]


@virtually
async def test_a_look_in_which_another_leader_was_faster_is_taken_again() -> None:
    scene = await a_scene()
    tasks = await add(scene, 9)
    await scene.pass_time(LATER.total_seconds())
    await a_roll_up(scene)(scene.reign)
    await end(scene, *tasks)
    await scene.pass_time(LATER.total_seconds())
    slow = RollUp(
        reports=Overtaken(scene, times=1),  # type: ignore[arg-type]
        time=scene.time,
        clock=scene.clock,
        page=3,
    )
    await slow(scene.reign)
    await slow(scene.reign)
    assert await counts(scene) == (9, 9)
    assert await left(scene) == []


class Narrow:
    """A store that takes the sums of no more than one task at once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __getattr__(self, name: str) -> object:
        return getattr(self._scene.store.reports, name)

    async def roll_up(self, step: Step) -> bool:
        if sum(figures.submitted for key, figures in step.added.items() if key.grain is Grain.DAY) > 1:
            raise InvalidError("request", "is too long")
        return await self._scene.store.reports.roll_up(step)


@virtually
async def test_a_step_that_is_more_than_the_store_takes_at_once_is_taken_as_smaller_ones() -> None:
    scene = await a_scene()
    await end(scene, *await add(scene, 5))
    await scene.pass_time(LATER.total_seconds())
    roll_up = a_roll_up(scene, page=4)
    roll_up.reports = Narrow(scene)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(InvalidError):
            await roll_up(scene.reign)
    await roll_up(scene.reign)
    assert await counts(scene) == (5, 5)


class Turmoil:
    """Leaders that change, fail and lose answers, while tasks come, late ones too, and end; and what is true of it."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self.scene, self.chance = scene, chance
        self.live: list[int] = []
        self.happened: Counter[str] = Counter()
        self.leaders = [a_roll_up(scene, page=chance.choice([1, 3, 50])) for _ in range(2)]

    async def step(self) -> None:
        acts = [self._add, self._end, self._lead, self._lead, self._break, self._wait]
        await self.chance.choice(acts)()

    async def _add(self) -> None:
        ago = self.chance.choice([timedelta(0), timedelta(seconds=3), timedelta(minutes=self.chance.randrange(1, 30))])
        now, number = self.scene.clock.now(), self.chance.randrange(1, 9)
        fresh = [first_id_at(now - ago) + self.happened["added"] * 10 + place for place in range(number)]
        await self.scene.add(*fresh, created_at=now)
        self.live += fresh
        self.happened["added"] += number

    async def _end(self) -> None:
        """But for those that came late and were not seen yet: if they end at once, nobody sees them."""
        seen = await _seen(self.scene)
        known = [one for one in self.live if one in seen]
        for one in self.chance.sample(known, self.chance.randrange(len(known) + 1)):
            await end(self.scene, one)
            self.live.remove(one)
            self.happened["ended"] += 1

    async def _lead(self) -> None:
        try:
            await self.chance.choice(self.leaders)(self.scene.reign)
        except StoreUnavailableError:
            self.happened["failures"] += 1

    async def _break(self) -> None:
        operation = self.chance.choice(["roll_up", "roll_up", "list_left", "load_facts", "find_progress"])
        fault = self.chance.choice([Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT])
        self.scene.faults.inject(f"reports.{operation}", fault)

    async def _wait(self) -> None:
        await self.scene.pass_time(self.chance.choice([1, 10, 30]))


@pytest.mark.parametrize("seed", range(12))
@virtually
async def test_each_task_is_counted_once_whatever_happens(seed: int) -> None:
    scene = await a_scene()
    await scene.pass_time(3600)
    turmoil = Turmoil(scene, random.Random(seed))
    for _ in range(150):
        await turmoil.step()
    scene.faults.heal()
    await scene.pass_time(3600)
    for leader in turmoil.leaders:
        await leader(scene.reign)
    assert await counts(scene) == (turmoil.happened["added"], turmoil.happened["ended"])
    assert await left(scene) == sorted(turmoil.live)
    assert turmoil.happened["failures"]


async def _seen(scene: Scene) -> set[int]:
    """Those that were passed, and those that are yet to be."""
    reports = scene.actual_store.reports
    swept_to = (await reports.find_progress()).swept_to
    ahead = {one.id for one in await reports.list_facts(after=swept_to, before=2**63 - 1, limit=10_000)}
    return ahead | set(await left(scene))
