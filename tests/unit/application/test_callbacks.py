"""Attempts that are finished from outside."""

from datetime import timedelta

import pytest

from rota.application import callbacks
from rota.application.audit import Actor
from rota.application.callbacks import MOST_TRIES, AttemptCallbacks
from rota.application.progress import find_progress
from rota.application.submit import SubmitTasks
from rota.domain.attempt import Failed, Succeeded, TaskError, TaskResult
from rota.domain.callback import AttemptKey
from rota.domain.errors import ConflictError, NotFoundError, StaleAttemptError
from rota.domain.events import EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry, Progress
from rota.domain.retry import RetryPolicy
from rota.domain.task import CANCELLED, FAILED, PROCESSING, RETRYING, SUCCESS, TIMEOUT, Task
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, SECOND, a_config, a_submission
from tests.support.virtual import Bench, a_bench, pass_time, virtually

DONE = Succeeded(TaskResult(message="sent", data='{"id":7}'))
BROKEN = Failed(TaskError("http_503", "busy"))
ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")


class Desk:
    """A node with one task whose first attempt runs."""

    def __init__(self, bench: Bench, task_id: TaskId) -> None:
        self.bench = bench
        self.callbacks = AttemptCallbacks(bench.node)
        self.attempt = AttemptKey(DEFAULT_TENANT, task_id, 1)

    async def task(self) -> Task:
        task = await self.bench.node.store.tasks.find(self.attempt.task_id, DEFAULT_TENANT)
        assert task is not None
        return task

    async def lines(self) -> list[LogEntry]:
        return [entry for entry in await self.bench.node.store.logs.read(self.attempt.task_id) if entry.detail]

    async def grant(self) -> None:
        task = await self.task()
        at = max(self.bench.clock.now(), task.state.due_at)
        step = task.state.granted(WorkerId(5), term=1, at=at, timeout=task.spec.timeout)
        assert (await self.bench.node.store.tasks.advance([step])).applied

    async def defer(self) -> None:
        step = (await self.task()).state.deferred(at=self.bench.clock.now())
        assert (await self.bench.node.store.tasks.advance([step])).applied


async def a_desk(*, is_deferred: bool = True, limit: timedelta = HOUR, **policy: object) -> Desk:
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    wish = a_submission(timeout=limit, retry=RetryPolicy(**policy))  # type: ignore[arg-type]
    desk = Desk(bench, (await SubmitTasks(bench.node).submit(wish)).task_id)
    await bench.node.coordinator.queue.take(10, order=range(10))
    await desk.grant()
    if is_deferred:
        await desk.defer()
    return desk


@virtually
async def test_a_deferred_attempt_is_completed() -> None:
    desk = await a_desk()
    async with desk.bench.node.coordinator.signals.subscribe() as events:
        answer = await desk.callbacks.complete(desk.attempt, DONE)
        event = await hear(events)
    assert answer == await desk.task()
    assert (answer.state.status, answer.state.attempt, answer.result) == (SUCCESS, 1, DONE.result)
    assert (event.kind, event.task_id, event.task_type) == (EventKind.TASK_COMPLETED, desk.attempt.task_id, EMAIL)
    assert await desk.bench.node.coordinator.signals.find_cancelled([desk.attempt.task_id]) == frozenset()


@virtually
async def test_a_failure_is_tried_again_by_the_policy_and_queued() -> None:
    desk = await a_desk(delay=10 * SECOND, jitter=0.0)
    task = await desk.callbacks.fail(desk.attempt, BROKEN)
    assert (task.state.status, task.error, task.state.retry_count) == (RETRYING, BROKEN.error, 1)
    assert task.state.due_at - desk.bench.clock.now() == 10 * SECOND
    assert (await desk.bench.node.coordinator.queue.depths()).delayed == 1


@virtually
async def test_a_failure_says_itself_when_to_try_again_or_that_it_is_the_end() -> None:
    desk = await a_desk()
    task = await desk.callbacks.fail(desk.attempt, replace(BROKEN, retry_after=MINUTE))
    assert task.state.due_at - desk.bench.clock.now() == MINUTE
    other = await a_desk()
    final = await other.callbacks.fail(other.attempt, Failed(replace(BROKEN.error, retryable=False)))
    assert final.state.status is FAILED


@virtually
async def test_dispatch_is_woken_when_a_deferred_attempt_ends() -> None:
    desk = await a_desk()
    queue = desk.bench.node.coordinator.queue
    await queue.wait_for_work(timedelta(0))
    assert not await queue.wait_for_work(timedelta(0))
    await desk.callbacks.complete(desk.attempt, DONE)
    assert await queue.wait_for_work(timedelta(0)), "the next of a type with a limit waits for its room"


@virtually
async def test_a_retry_beyond_the_total_timeout_is_the_end() -> None:
    desk = await a_desk(total_timeout=MINUTE)
    task = await desk.callbacks.fail(desk.attempt, replace(BROKEN, retry_after=HOUR))
    assert (task.state.status, task.error and task.error.code) == (TIMEOUT, "total_timeout")


@virtually
async def test_a_word_that_is_faster_than_the_worker_counts_and_the_worker_is_asked_to_stop() -> None:
    desk = await a_desk(is_deferred=False)
    held = (await desk.task()).state
    task = await desk.callbacks.complete(desk.attempt, DONE)
    assert task.state.status is SUCCESS
    assert await desk.bench.node.coordinator.signals.find_cancelled([desk.attempt.task_id]) == {desk.attempt.task_id}
    written = await desk.bench.node.store.tasks.advance([held.deferred(at=desk.bench.clock.now())])
    assert written.stale == {desk.attempt.task_id}


@virtually
async def test_the_same_again_is_no_error_and_changes_nothing() -> None:
    desk = await a_desk()
    first = await desk.callbacks.complete(desk.attempt, DONE)
    assert await desk.callbacks.complete(desk.attempt, DONE) == first
    other = await a_desk()
    failed = await other.callbacks.fail(other.attempt, BROKEN)
    assert await other.callbacks.fail(other.attempt, BROKEN) == failed


@virtually
async def test_the_same_again_is_no_error_whatever_followed_from_it() -> None:
    desk = await a_desk(total_timeout=MINUTE)
    late = replace(BROKEN, retry_after=HOUR)
    timed_out = await desk.callbacks.fail(desk.attempt, late)
    assert timed_out.state.status is TIMEOUT
    assert await desk.callbacks.fail(desk.attempt, late) == timed_out
    with pytest.raises(StaleAttemptError):
        await desk.callbacks.fail(desk.attempt, Failed(TaskError("http_500", "another")))
    other = await a_desk()
    unfit = Succeeded(TaskResult(data="{"))
    failed = await other.callbacks.complete(other.attempt, unfit)
    assert (failed.state.status, failed.error and failed.error.code) == (FAILED, "bad_result")
    assert await other.callbacks.complete(other.attempt, unfit) == failed


@virtually
async def test_a_second_word_that_differs_is_refused() -> None:
    desk = await a_desk()
    await desk.callbacks.complete(desk.attempt, DONE)
    with pytest.raises(StaleAttemptError, match="SUCCESS at attempt 1"):
        await desk.callbacks.complete(desk.attempt, Succeeded())
    with pytest.raises(StaleAttemptError):
        await desk.callbacks.fail(desk.attempt, BROKEN)
    with pytest.raises(StaleAttemptError):
        await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
    with pytest.raises(StaleAttemptError):
        await desk.callbacks.progress(desk.attempt, fraction=0.5)
    assert (await desk.task()).result == DONE.result


@virtually
async def test_a_word_about_an_attempt_of_the_past_or_to_come_is_refused() -> None:
    desk = await a_desk(delay=timedelta(0))
    await desk.callbacks.fail(desk.attempt, BROKEN)
    await desk.grant()
    for number in (1, 3):
        with pytest.raises(StaleAttemptError, match=f"attempt {number} .* PROCESSING at attempt 2"):
            await desk.callbacks.complete(replace(desk.attempt, number=number), DONE)
        with pytest.raises(StaleAttemptError):
            await desk.callbacks.fail(replace(desk.attempt, number=number), BROKEN)
    assert (await desk.task()).state.status is PROCESSING


@virtually
async def test_a_cancelled_task_takes_no_word_any_more() -> None:
    desk = await a_desk()
    state = (await desk.task()).state
    await desk.bench.node.store.tasks.advance([state.cancelled("by test", at=desk.bench.clock.now())])
    with pytest.raises(StaleAttemptError):
        await desk.callbacks.complete(desk.attempt, DONE)
    assert (await desk.task()).state.status is CANCELLED


@virtually
async def test_a_task_of_another_tenant_does_not_exist() -> None:
    desk = await a_desk()
    with pytest.raises(NotFoundError):
        await desk.callbacks.complete(replace(desk.attempt, tenant_id=TenantId("other")), DONE)


@virtually
async def test_a_heartbeat_begins_a_lease_and_the_next_one_prolongs_it() -> None:
    desk = await a_desk()
    task = await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
    assert task == await desk.task()
    assert task.state.due_at - desk.bench.clock.now() == MINUTE
    await pass_time(30)
    task = await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
    assert task.state.due_at - desk.bench.clock.now() == MINUTE
    assert (task.state.status, task.state.attempt, task.state.worker_id) == (PROCESSING, 1, None)


@virtually
async def test_a_flood_of_heartbeats_is_written_ten_times_in_a_lease() -> None:
    desk = await a_desk()
    before = (await desk.task()).state.version
    for _ in range(600):
        await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
        await pass_time(0.1)
    assert 1 < (await desk.task()).state.version - before <= 11


@virtually
async def test_heartbeats_leave_nothing_in_the_record_however_many_there_are() -> None:
    desk = await a_desk(limit=HOUR * 24)
    before = await desk.bench.node.store.logs.read(desk.attempt.task_id)
    for _ in range(300):
        await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
        await pass_time(20)
    assert await desk.bench.node.store.logs.read(desk.attempt.task_id) == before


@virtually
async def test_no_lease_reaches_beyond_the_timeout() -> None:
    desk = await a_desk(limit=MINUTE)
    granted = await desk.task()
    assert (await desk.callbacks.heartbeat(desk.attempt, lease=HOUR)).state.due_at == granted.state.due_at
    other = await a_desk(total_timeout=30 * SECOND)
    started = (await other.task()).spec.created_at
    assert (await other.callbacks.heartbeat(other.attempt, lease=MINUTE)).state.due_at == started + 30 * SECOND


@virtually
async def test_a_heartbeat_does_not_disturb_a_worker_that_has_the_attempt_in_its_hands() -> None:
    desk = await a_desk(is_deferred=False)
    before = await desk.task()
    assert await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE) == before


@virtually
async def test_progress_is_a_line_of_the_log_and_an_event() -> None:
    desk = await a_desk()
    async with desk.bench.node.coordinator.signals.subscribe() as events:
        await desk.callbacks.progress(desk.attempt, fraction=0.25, message="a quarter")
        told = [(event.kind, event.progress) for event in [await hear(events), await hear(events)]]
    assert told == [(EventKind.TASK_LOGGED, None), (EventKind.TASK_PROGRESS, Progress(0.25, "a quarter"))]
    await pass_time(0.5)
    await desk.callbacks.progress(desk.attempt, fraction=0.3)  # within the same second: the first one stands
    await pass_time(1)
    await desk.callbacks.progress(desk.attempt, fraction=1 / 3)
    assert [(line.message, line.detail, line.attempt) for line in await desk.lines()] == [
        ("a quarter", '{"progress": 0.25}', 1),
        ("", '{"progress": 0.3333}', 1),
    ]


@virtually
async def test_progress_outlives_the_heartbeats_that_follow_it() -> None:
    desk = await a_desk()
    await desk.callbacks.progress(desk.attempt, fraction=0.5)
    await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
    assert await find_progress(desk.bench.node.store.logs, await desk.task()) == Progress(0.5)


@pytest.mark.parametrize(("second", "kept"), [(0, 0), (3599, 3599), (3601, 3600), (7203, 7203), (7204, 7203)])
def test_the_longer_an_attempt_lasts_the_fewer_of_its_words_are_kept(second: int, kept: int) -> None:
    assert callbacks._thinned(second) == kept


@virtually
async def test_a_coordinator_that_is_away_holds_up_no_word() -> None:
    desk = await a_desk()
    for call in ("queue.push", "signals.publish"):
        desk.bench.faults.inject(call, Fault.TIMEOUT, times=None)
    assert (await desk.callbacks.progress(desk.attempt, fraction=0.5)).state.status is PROCESSING
    assert (await desk.callbacks.fail(desk.attempt, BROKEN)).state.status is RETRYING


@virtually
async def test_a_task_that_moves_meanwhile_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = await a_desk()
    moves = 1

    async def find_and_move(task_id: TaskId, tenant_id: TenantId) -> Task | None:
        nonlocal moves
        task = await desk.bench.node.store.tasks.find(task_id, tenant_id)
        if task is not None and moves:
            moves -= 1
            await desk.bench.node.store.tasks.advance(
                [task.state.prolonged(desk.bench.clock.now() + HOUR, at=desk.bench.clock.now())]
            )
        return task

    monkeypatch.setattr(AttemptCallbacks, "_get", lambda _, attempt: find_and_move(attempt.task_id, attempt.tenant_id))
    moves = MOST_TRIES
    with pytest.raises(ConflictError, match="changed 10 times"):
        await desk.callbacks.heartbeat(desk.attempt, lease=MINUTE)
    moves = MOST_TRIES
    with pytest.raises(ConflictError, match="changed 10 times"):
        await desk.callbacks.complete(desk.attempt, DONE)
    moves = 1
    assert (await desk.callbacks.complete(desk.attempt, DONE)).state.status is SUCCESS


@virtually
async def test_what_an_operator_says_is_on_record_and_what_a_link_says_is_not() -> None:
    desk = await a_desk()
    await desk.callbacks.complete(desk.attempt, DONE, actor=ADA)
    [entry] = await desk.bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.actor, entry.action, entry.detail) == ("ada", "task.complete", "attempt 1")
    other = await a_desk()
    await other.callbacks.fail(other.attempt, BROKEN)
    assert await other.bench.node.store.audit.list_page(DEFAULT_TENANT) == []


@virtually
async def test_all_nodes_have_the_same_key_and_do_not_show_it() -> None:
    bench = await a_bench()
    kept = await bench.node.store.secrets.keep("callback", "another")
    assert bench.node.callback_key == kept.encode()
    assert len(kept) >= 43
    assert kept not in repr(bench.node)
