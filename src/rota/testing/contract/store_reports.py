"""The contract of `ReportStore`: facts about tasks, steps that are taken once, and the sums they make."""

import asyncio

import pytest

from rota.application.ports.report import MOST_ROLLUPS, RollupRange
from rota.application.ports.store import Store
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, MAX_ID, TaskId, TenantId
from rota.domain.rollup import Figures, Grain, LeftBehind, Progress, RollupKey, Spread, Step, TaskFacts, micros
from rota.domain.task import CANCELLED, FAILED, SUCCESS, TIMEOUT
from rota.testing.contract.store_backend import (
    HOUR,
    HUGE,
    MANY,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    REPORT,
    SECOND,
    WORKER_1,
    StoreBackend,
    add,
    add_each,
    add_one,
    cancel_step,
    end,
    find,
    grant,
    grant_one,
    grant_step,
    ids_of,
    make_error,
    make_tasks,
    retry_step,
    success_step,
    write,
)

START = micros(NOON) - micros(NOON) % Grain.QUARTER.width_us
ALL = RollupRange(DEFAULT_TENANT, Grain.QUARTER, 0, micros(NOON) * 2)


def a_key(task_type: str = REPORT, *, start: int = START, tenant: TenantId = DEFAULT_TENANT) -> RollupKey:
    return RollupKey(tenant, Grain.QUARTER, start, task_type)


def figures(succeeded: int = 1) -> Figures:
    return Figures(succeeded=succeeded, run=Spread(succeeded, 5000, 1000, 4000, {1: succeeded - 1, 17: 1}))


def a_step(before: Progress | None = None, **changes: object) -> Step:
    known = before or Progress()
    after = Progress(known.version + 1, known.swept_to + 1, NOON)
    return Step(**{"before": known, "after": after, "added": {}, "left": {}, **changes})  # type: ignore[arg-type]


async def keep(store: Store, *keys: RollupKey) -> None:
    """One more success for each of these."""
    progress = await store.reports.find_progress()
    assert await store.reports.roll_up(a_step(progress, added={key: figures() for key in keys}))


@pytest.mark.asyncio
class TestTaskFacts:
    async def test_what_is_known_of_a_task_that_lives(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, tenant_id=OTHER_TENANT, type="mail.send", scheduled_at=NOON + HOUR)
        expected = TaskFacts(
            id=task.id,
            tenant_id=OTHER_TENANT,
            type="mail.send",
            status=None,
            created_us=micros(NOON),
            due_us=micros(NOON + HOUR),
        )
        assert await store.reports.load_facts([task.id, TaskId(1)]) == [expected]
        assert await store.reports.load_facts([]) == []

    async def test_what_is_known_of_a_task_that_ended(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [failed] = await write(store, [one := await grant_one(store)], steps=[retry_step(one)])
        again = grant_step(failed, at=NOON + 2 * MINUTE)
        [running] = await write(store, [failed], steps=[again])
        await end(store, [running], at=NOON + 3 * MINUTE + MICROSECOND)
        [facts] = await store.reports.load_facts([running.id])
        assert facts == TaskFacts(
            id=running.id,
            tenant_id=DEFAULT_TENANT,
            type=REPORT,
            status=SUCCESS,
            created_us=micros(NOON),
            due_us=micros(NOON),
            started_us=micros(NOON + 2 * MINUTE),
            completed_us=micros(NOON + 3 * MINUTE + MICROSECOND),
            attempt=2,
            retry_count=1,
        )

    @pytest.mark.parametrize(("asked", "moved_to"), [(0, 8), (8, 20), (20, 8)])
    async def test_a_task_that_was_moved_waits_from_then_on(
        self, backend: StoreBackend, asked: int, moved_to: int
    ) -> None:
        store = await backend.connect()
        asked_at, due_at = NOON + asked * HOUR, NOON + moved_to * HOUR
        task = await add_one(store, state={"due_at": asked_at}, scheduled_at=asked_at)
        [moved] = await write(store, [task], steps=[task.state.amended(due_at=due_at, at=NOON + MINUTE)])
        [live] = await store.tasks.find_live([task.id])
        step = live.state.granted(WORKER_1, term=1, at=due_at + 20 * MILLISECOND, timeout=HOUR)
        [running] = await write(store, [moved], steps=[step])
        [ended] = await end(store, [running], at=due_at + MINUTE)
        figures = Figures()
        figures.add_end((await store.reports.load_facts([task.id]))[0])
        assert (figures.wait.count, figures.wait.sum_us) == (1, 20_000)
        assert await find(store, task) == ended
        assert ended.scheduled_at == due_at

    async def test_how_tasks_ended(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant(store, await add(store, make_tasks(5)))
        ends = [
            success_step(running[0]),
            running[1].state.failed(make_error(message='{"code":"poison",'), at=NOON),
            running[2].state.timed_out(make_error(), at=NOON),
            cancel_step(running[3]),
            running[4].state.failed(make_error("poison"), at=NOON),
        ]
        await write(store, running, steps=ends)
        found = {one.id: one for one in await store.reports.load_facts(ids_of(running))}
        ended = [(found[task.id].status, found[task.id].is_quarantined) for task in running]
        expected = [(SUCCESS, False), (FAILED, False), (TIMEOUT, False), (CANCELLED, False), (FAILED, True)]
        assert ended == expected

    async def test_tasks_of_all_tenants_are_listed_by_id_between_two_ids(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tenants = (DEFAULT_TENANT, OTHER_TENANT)
        tasks = ids_of(await add_each(store, [{"tenant_id": tenants[place % 2]} for place in range(6)]))
        found = await store.reports.list_facts(after=tasks[0], before=tasks[5], limit=3)
        assert [one.id for one in found] == tasks[1:4]
        found = await store.reports.list_facts(after=tasks[3], before=tasks[5], limit=3)
        assert [one.id for one in found] == tasks[4:5]
        assert await store.reports.list_facts(after=tasks[5], before=MAX_ID, limit=3) == []

    async def test_those_that_live_are_listed_by_id_up_to_one(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(6))
        await end(store, await grant(store, [tasks[2]]))
        await grant(store, [tasks[3]])
        live = ids_of([*tasks[:2], *tasks[3:]])
        reports = store.reports
        assert await reports.list_live_ids(after=0, upto=MAX_ID, limit=10) == live
        assert await reports.list_live_ids(after=tasks[0].id, upto=tasks[4].id, limit=10) == live[1:4]
        assert await reports.list_live_ids(after=tasks[0].id, upto=tasks[4].id, limit=2) == live[1:3]


@pytest.mark.asyncio
class TestRollUp:
    async def test_nothing_is_summed_up_at_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.reports.find_progress() == Progress()
        assert await store.reports.list_left(after=0, limit=10) == []
        assert list(await store.reports.list_rollups(ALL)) == []

    async def test_a_step_moves_the_progress_and_adds_to_the_sums(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await keep(store, a_key(), a_key("other"))
        progress = await store.reports.find_progress()
        assert progress == Progress(1, 1, NOON)
        assert await store.reports.roll_up(a_step(progress, added={a_key(): figures(3)}))
        assert (await store.reports.find_progress()).version == 2
        sums = {one.type: one for one in await store.reports.list_rollups(ALL)}
        assert sums["other"].figures == figures()
        expected = figures()
        expected.merge(figures(3))
        assert sums[REPORT].figures == expected
        assert sums[REPORT].start_us == START

    async def test_a_step_that_is_repeated_changes_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        step = a_step(added={a_key(): figures()}, left={7: (TaskId(7),)})
        assert await store.reports.roll_up(step)
        later = a_step(step.after, left={7: ()})
        assert await store.reports.roll_up(later)
        assert not await store.reports.roll_up(step)
        assert not await store.reports.roll_up(later)
        assert await store.reports.find_progress() == later.after
        assert [one.figures for one in await store.reports.list_rollups(ALL)] == [figures()]
        assert await store.reports.list_left(after=0, limit=10) == []

    async def test_of_two_leaders_one_takes_the_step(self, backend: StoreBackend) -> None:
        stores = [await backend.connect(), await backend.connect()]
        for _ in range(5):
            progress = await stores[0].reports.find_progress()
            step = a_step(progress, added={a_key(): figures()})
            answers = await asyncio.gather(*(store.reports.roll_up(step) for store in stores))
            assert sorted(answers) == [False, True]
        [sums] = await stores[0].reports.list_rollups(ALL)
        assert sums.figures.succeeded == 5

    async def test_those_left_behind_are_put_in_place_and_taken_away(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        many = tuple(ids_of(make_tasks(MANY)))
        step = a_step(left={3: (TaskId(4), TaskId(9)), many[0]: many, 20: (TaskId(20),)})
        assert await store.reports.roll_up(step)
        first, second, last = await store.reports.list_left(after=0, limit=10)
        assert [first, second] == [LeftBehind(3, (TaskId(4), TaskId(9))), LeftBehind(20, (TaskId(20),))]
        assert last == LeftBehind(many[0], many)
        assert await store.reports.list_left(after=3, limit=1) == [second]
        assert await store.reports.roll_up(a_step(step.after, left={3: (TaskId(9),), 20: (), 21: ()}))
        assert await store.reports.list_left(after=0, limit=1) == [LeftBehind(3, (TaskId(9),))]
        assert await store.reports.list_left(after=3, limit=9) == [last]

    async def test_many_sums_are_made_in_one_step(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        keys = [a_key(f"type-{place % 10}", start=START + place // 10) for place in range(1500)]
        await keep(store, *keys)
        await keep(store, *keys[:700])
        found = await store.reports.list_rollups(ALL)
        assert sum(one.figures.succeeded for one in found) == 2200


@pytest.mark.asyncio
class TestRollups:
    async def test_only_those_of_the_tenant_the_width_and_the_time_are_listed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        wanted = [a_key("a", start=START), a_key("b", start=START), a_key("a", start=START + 1)]
        others = [
            a_key("a", start=START - 1),
            a_key("a", start=START + 2),
            a_key("a", tenant=OTHER_TENANT),
            a_key("a")._replace(grain=Grain.HOUR),
        ]
        await keep(store, *others, *wanted)
        asked = RollupRange(DEFAULT_TENANT, Grain.QUARTER, START, START + 2)
        found = await store.reports.list_rollups(asked)
        assert [(one.start_us, one.type) for one in found] == [(key.start_us, key.type) for key in wanted]
        only = await store.reports.list_rollups(asked._replace(types=frozenset({"b", "c"})))
        assert [(one.start_us, one.type) for one in only] == [(START, "b")]

    async def test_a_long_list_is_paged_in_the_order_of_start_and_type(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        names = [f"{letter}{place}" for letter in "Zaz_." for place in range(100)]
        keys = [a_key(f"t{name}", start=START + minute) for minute in range(5) for name in names]
        for first in range(0, len(keys), 1000):
            await keep(store, *keys[first : first + 1000])
        page = await store.reports.list_rollups(ALL)
        assert len(page) == MOST_ROLLUPS
        rest = await store.reports.list_rollups(ALL, after=(page[-1].start_us, page[-1].type))
        found = [(one.start_us, one.type) for one in [*page, *rest]]
        assert found == sorted((key.start_us, key.type) for key in keys)
        assert list(await store.reports.list_rollups(ALL, after=found[-1])) == []

    async def test_the_old_of_all_tenants_go_up_to_a_limit(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        old = [
            a_key(name, start=START - 1, tenant=tenant) for name in "ab" for tenant in (DEFAULT_TENANT, OTHER_TENANT)
        ]
        kept = [a_key("a"), a_key("a", start=START - 1)._replace(grain=Grain.DAY)]
        await keep(store, *old, *kept)
        purge = store.reports.purge
        answers = [await purge(Grain.QUARTER, before_us=START, limit=limit) for limit in (3, HUGE, HUGE)]
        assert answers == [3, 1, 0]
        assert [one.start_us for one in await store.reports.list_rollups(ALL)] == [START]
        days = await store.reports.list_rollups(ALL._replace(grain=Grain.DAY))
        assert [one.start_us for one in days] == [START - 1]
        with pytest.raises(InvalidError, match="limit"):
            await purge(Grain.DAY, before_us=START, limit=0)

    async def test_figures_come_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        spread = Spread(2**40, 2**60, 0, 2**50, {0: 2**40 - 1, 257: 1})
        whole = Figures(1, 2, 3, 4, 5, 6, 7, 8, run=spread, wait=Spread(1, 5, 5, 5, {0: 1}))
        looked_at = NOON + SECOND
        after = Progress(1, MAX_ID, looked_at)
        assert await store.reports.roll_up(a_step(added={a_key(): whole}, after=after))
        [found] = await store.reports.list_rollups(ALL)
        assert found.figures == whole
        assert await store.reports.find_progress() == after
