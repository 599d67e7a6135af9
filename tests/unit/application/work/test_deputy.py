"""Signs of life while the control loop is held up, and the silence when it is stuck."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application.loop import Loops
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.store import WorkerRecord
from rota.application.work.deputy import Deputy, DeputyPlan, Witnesses
from rota.application.work.lease import Lease
from rota.application.work.settings import WorkerSettings
from rota.application.work.worker import WorkerService
from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.store import memory_store
from rota.infrastructure.system import SystemClock
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.values import replace
from tests.support.builders import SECOND, a_worker
from tests.support.clock import FakeClock
from tests.support.patience import PATIENCE_S
from tests.support.virtual import FixedChance, virtually
from tests.support.worker_stage import Stage

BEAT = timedelta(seconds=3)
LEASE = timedelta(seconds=12)
STUCK_AFTER = 120.0
WORKER = WorkerId(1)


class SameLoop:
    """No thread: the loop of the test plays both parts."""

    def __init__(self) -> None:
        self.running: asyncio.Task[None] | None = None

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.running = asyncio.create_task(main())

    def close(self) -> None:
        assert self.running is not None
        self.running.cancel()

    def read_stack(self) -> str:
        return "in time.sleep"


class Scene:
    def __init__(self, *, is_ours: bool = True) -> None:
        self.clock = FakeClock()
        self.store = memory_store(self.clock)
        self.coordinator = memory_coordinator(self.clock)
        self.faults = Faults()
        self.opened = 0
        self.ended = 0
        self.aside = SameLoop()
        self.plan = plan = DeputyPlan(
            aside=self.aside,
            open_witnesses=self.open_witnesses,
            end_process=self.end if is_ours else None,
            stuck_after=STUCK_AFTER,
        )
        settings = WorkerSettings(name="worker-1", heartbeat_every=BEAT, lease=LEASE)
        self.lease = Lease(self.clock, lasts=LEASE)
        loops = Loops(self.clock, FixedChance(), NoMetrics())
        self.deputy = Deputy(plan, loops, settings=settings, lease=self.lease)

    @asynccontextmanager
    async def open_witnesses(self) -> AsyncIterator[Witnesses]:
        self.opened += 1
        coordinator = faulty_coordinator(self.coordinator, self.faults)
        yield Witnesses(faulty_store(self.store, self.faults).workers, coordinator.pool)
        self.opened -= 1

    def end(self) -> None:
        self.ended += 1

    async def sign_for(self, duration: timedelta) -> None:
        """The control loop gets its turns."""
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.deputy.note(WORKER, Heartbeat(load=2))
            await self.clock.run(self.deputy.sign_every)

    async def find(self) -> WorkerRecord:
        return (await self.store.workers.list_all())[0]

    async def silence_of(self, at: datetime) -> timedelta:
        """How long ago the store had heard of the worker."""
        return at - (await self.find()).seen_at


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    async with at_work(made):
        yield made


@asynccontextmanager
async def at_work(made: Scene) -> AsyncIterator[None]:
    await made.store.workers.register(a_worker(WORKER))
    await made.coordinator.pool.register(a_worker(WORKER), LEASE)
    made.deputy.start()
    try:
        yield
    finally:
        made.deputy.close()
        assert made.aside.running is not None
        await asyncio.gather(made.aside.running, return_exceptions=True)


async def test_nothing_is_said_while_the_control_loop_gets_its_turns(scene: Scene) -> None:
    joined_at = scene.clock.now()
    await scene.sign_for(SECOND * 60)
    assert (await scene.find()).seen_at == joined_at
    assert scene.opened == 0


async def test_the_store_hears_of_the_worker_while_its_loop_is_held_up(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    with capture_logs() as logs:
        for _ in range(10):
            await scene.clock.run(SECOND * 6)
            assert await scene.silence_of(scene.clock.now()) <= BEAT
            assert scene.lease.is_held, "the worker need not stop anything when its loop is back"
    assert (await scene.find()).worker.load == 2
    assert [(line["event"], line["stack"]) for line in logs] == [("worker.loop_blocked", "in time.sleep")]


async def test_two_missed_signs_are_enough(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    await scene.clock.run(SECOND * 1.1)
    assert await scene.silence_of(scene.clock.now()) <= SECOND, "the shortest lease is two heartbeats"


async def test_the_connection_is_closed_when_the_loop_is_back(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    await scene.clock.run(SECOND * 30)
    assert scene.opened == 1
    await scene.sign_for(SECOND * 10)
    assert scene.opened == 0
    spoken_at = (await scene.find()).seen_at
    await scene.sign_for(SECOND * 10)
    assert (await scene.find()).seen_at == spoken_at


async def test_a_worker_that_is_not_registered_is_not_spoken_for(scene: Scene) -> None:
    joined_at = scene.clock.now()
    scene.deputy.note(None)
    await scene.clock.run(SECOND * 60)
    assert (await scene.find()).seen_at == joined_at


async def test_the_pool_is_not_told_so_that_no_work_comes(scene: Scene) -> None:
    await scene.sign_for(SECOND * 6)
    await scene.clock.run(LEASE)
    assert await scene.coordinator.pool.list_alive() == []


async def test_the_pool_is_told_while_the_store_cannot_be(scene: Scene) -> None:
    await scene.sign_for(SECOND * 6)
    scene.faults.inject("workers.seen", Fault.GONE, times=None)
    await scene.clock.run(LEASE * 3)
    assert [worker.load for worker in await scene.coordinator.pool.list_alive()] == [2]
    assert scene.lease.is_held
    await scene.coordinator.pool.remove([WORKER])
    await scene.clock.run(LEASE)
    assert not scene.lease.is_held, "nobody knows it"


async def test_while_neither_can_be_told_the_deputy_goes_on_trying(scene: Scene) -> None:
    await scene.sign_for(SECOND * 6)
    for call in ("workers.seen", "pool.heartbeat"):
        scene.faults.inject(call, Fault.GONE, times=None)
    await scene.clock.run(SECOND * 40)
    scene.faults.heal()
    await scene.clock.run(SECOND * 10)
    assert await scene.silence_of(scene.clock.now()) <= BEAT


async def test_a_store_that_is_away_for_a_while_is_told_as_soon_as_it_is_back(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    scene.faults.inject("workers.seen", Fault.GONE, times=None)
    with capture_logs() as logs:
        await scene.clock.run(SECOND * 40)
        scene.faults.heal()
        await scene.clock.run(SECOND * 10)
    assert await scene.silence_of(scene.clock.now()) <= BEAT
    assert [line["event"] for line in logs].count("worker.loop_blocked") == 1


async def test_a_loop_that_is_stuck_ends_the_process(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    silent_at = scene.clock.now()
    await scene.clock.run(SECOND * 110)
    assert scene.ended == 0
    with capture_logs() as logs:
        await scene.clock.run(SECOND * 60)
    assert scene.ended == 1
    assert [line["event"] for line in logs] == ["worker.loop_stuck"]
    assert (await scene.find()).seen_at - silent_at <= timedelta(seconds=STUCK_AFTER)


async def test_in_the_process_of_somebody_else_the_deputy_falls_silent_until_the_loop_is_back() -> None:
    scene = Scene(is_ours=False)
    async with at_work(scene):
        await scene.sign_for(SECOND * 10)
        await scene.clock.run(SECOND * 300)
        assert await scene.silence_of(scene.clock.now()) > SECOND * 170, "so that it is found dead"
        await scene.sign_for(SECOND * 10)
        await scene.clock.run(SECOND * 20)
        assert await scene.silence_of(scene.clock.now()) <= BEAT


async def test_a_process_that_stood_still_as_a_whole_is_not_stuck(scene: Scene) -> None:
    await scene.sign_for(SECOND * 10)
    scene.clock.advance(timedelta(hours=1))
    await scene.clock.run(SECOND * 60)
    assert scene.ended == 0
    assert await scene.silence_of(scene.clock.now()) <= BEAT
    await scene.clock.run(SECOND * 70)
    assert scene.ended == 1, "the hour does not count, what follows does"


@virtually
async def test_a_worker_makes_signs_while_it_runs_and_closes_its_deputy_at_the_end() -> None:
    scene, stage = Scene(), Stage()
    stage.worker = stage.make_worker(scene.plan)
    async with stage.running():
        await stage.pass_time(SECOND * 60)
        assert scene.aside.running is not None
        assert not scene.aside.running.done()
    await stage.pass_time()
    assert scene.aside.running.cancelled()
    assert (scene.opened, scene.ended) == (0, 0)


@virtually
async def test_a_worker_whose_loop_is_held_up_right_after_it_joined_is_spoken_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def be_held_up(_: WorkerService) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(WorkerService, "_make_sign", be_held_up)  # from the first turn on
    scene, stage = Scene(), Stage()
    scene.store = stage.store
    stage.worker = stage.make_worker(replace(scene.plan, stuck_after=600.0))
    async with stage.running():
        stage.faults.inject("workers.seen", Fault.GONE, times=None)  # by the worker itself
        await stage.pass_time(SECOND * 60)
        assert await scene.silence_of(stage.clock.now()) <= BEAT


async def test_the_pool_is_told_while_the_store_does_not_answer() -> None:
    async def never_answer(loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        await asyncio.get_running_loop().create_future()
        return []

    clock = SystemClock()
    store, coordinator, told = memory_store(clock), memory_coordinator(clock), asyncio.Event()
    store.workers.seen = never_answer  # type: ignore[method-assign]  # as behind a lock that nobody lets go of
    beat_pool = coordinator.pool.heartbeat

    async def note_beat(worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        told.set()
        return await beat_pool(worker_id, beat, lease=lease)

    coordinator.pool.heartbeat = note_beat  # type: ignore[method-assign]  # to know when

    @asynccontextmanager
    async def open_witnesses() -> AsyncIterator[Witnesses]:
        yield Witnesses(store.workers, coordinator.pool)

    aside = SameLoop()
    plan = DeputyPlan(aside=aside, open_witnesses=open_witnesses, end_process=None, stuck_after=STUCK_AFTER)
    settings = WorkerSettings(name="worker-1", heartbeat_every=SECOND / 10, lease=LEASE)
    lease = Lease(clock, lasts=settings.lease)
    deputy = Deputy(plan, Loops(clock, FixedChance(), NoMetrics()), settings=settings, lease=lease)
    deputy.start()
    deputy.note(WORKER, Heartbeat(load=2))
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    deputy.close()
    assert aside.running is not None
    await asyncio.gather(aside.running, return_exceptions=True)
