from datetime import timedelta
from typing import Any

import pytest

from rota.application import explain
from rota.application.explain import ExplainTask, Explanation
from rota.domain.attempt import TaskError
from rota.domain.errors import NotFoundError
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, TenantId
from rota.domain.schedule import Overlap, Schedule
from rota.domain.task import BLOCKED, CANCELLED, PENDING, PROCESSING
from rota.domain.waiting import Reason
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE, NOW, a_config, a_new_task, a_state, an_error
from tests.support.stage import Stage, staged

REPORT = "report"


async def ask(stage: Stage, task_id: int, *, tenant: str = DEFAULT_TENANT, **settings: Any) -> Explanation:
    explain_task = ExplainTask(stage.truth.tasks, stage.truth.configs, stage.calm, **settings)
    return await explain_task(TaskId(task_id), TenantId(tenant))


async def crown(stage: Stage) -> None:
    await stage.calm.election.campaign(NodeId("a"), timedelta(days=1))


@staged
async def test_an_unknown_task_or_another_tenants_is_not_found(stage: Stage) -> None:
    await stage.submit(1)
    with pytest.raises(NotFoundError):
        await ask(stage, 2)
    with pytest.raises(NotFoundError):
        await ask(stage, 1, tenant="other")


@staged
async def test_an_ended_task_says_how_it_ended(stage: Stage) -> None:
    await stage.submit(1)
    await stage.cancel(1)
    answer = await ask(stage, 1)
    assert (answer.status, answer.reason, answer.due_at) == (CANCELLED, Reason.ENDED, None)
    assert answer.sentence == "It ended as CANCELLED: by hand"
    assert (answer.error_code, answer.error_message) == ("cancelled", "by hand")
    await stage.hire(1)
    await stage.submit(2, 3)
    async with stage.reigning():
        await stage.finish(2)
        [live] = await stage.truth.tasks.find_live([TaskId(3)])
        await stage.truth.tasks.advance([live.state.failed(an_error("boom", message=""), at=stage.clock.now())])
    assert (await ask(stage, 2)).sentence == "It ended as SUCCESS."
    assert (await ask(stage, 3)).sentence == "It ended as FAILED after 0 of 3 retries, boom"


@staged
async def test_a_running_task_says_where_and_until_when(stage: Stage) -> None:
    await stage.hire(3)
    await stage.submit(1)
    async with stage.reigning():
        answer = await ask(stage, 1)
    assert (answer.status, answer.reason, answer.worker_id, answer.attempt) == (PROCESSING, Reason.RUNNING, 3, 1)
    assert "Attempt 1 runs on worker 3" in answer.sentence


@staged
async def test_a_deferred_attempt_waits_for_a_callback(stage: Stage) -> None:
    await stage.hire(3)
    await stage.submit(1)
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        await stage.truth.tasks.advance([live.state.deferred(at=stage.clock.now())])
        answer = await ask(stage, 1)
    assert (answer.status, answer.reason, answer.worker_id, answer.attempt) == (PROCESSING, Reason.CALLBACK, None, 1)
    assert "waits for a callback" in answer.sentence


@staged
async def test_a_blocked_task_waits_for_others(stage: Stage) -> None:
    await stage.truth.tasks.add([a_new_task(1, state=a_state(1, status=BLOCKED))])
    assert (await ask(stage, 1)).reason is Reason.BLOCKED


@staged
async def test_a_task_for_later_says_when(stage: Stage) -> None:
    due_at = stage.clock.now() + MINUTE
    await stage.submit(1, due_at=due_at)
    answer = await ask(stage, 1)
    assert (answer.reason, answer.due_at) == (Reason.NOT_DUE, due_at)
    assert answer.sentence == f"It is not to start before {due_at.isoformat().removesuffix('+00:00')}Z."


@staged
async def test_a_task_that_its_worker_gave_back_says_so(stage: Stage) -> None:
    await stage.hire(3)
    await stage.submit(1)
    due_at = stage.clock.now() + MINUTE
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        await stage.truth.tasks.advance([live.state.released("unknown type", at=stage.clock.now(), due_at=due_at)])
        answer = await ask(stage, 1)
    assert (answer.status, answer.reason) == (PENDING, Reason.NOT_DUE)
    assert answer.sentence.startswith("Attempt 1 was given back by its worker, its log says why; the next is not ")


@staged
async def test_a_task_that_is_tried_again_says_why(stage: Stage) -> None:
    await stage.hire(3)
    await stage.submit(1)
    now, error = stage.clock.now(), TaskError("ValueError", "no such address", retryable=True)
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        await stage.truth.tasks.advance([live.state.retried(error, at=now, due_at=now + MINUTE)])
        answer = await ask(stage, 1)
    assert answer.reason is Reason.NOT_DUE
    assert answer.sentence.startswith("Attempt 1 failed with ValueError, no such address; the next is not before ")


@staged
async def test_without_a_leader_nothing_goes(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    assert (await ask(stage, 1)).reason is Reason.NO_LEADER


@staged
async def test_a_type_that_nobody_supports_is_named(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1, types=frozenset({EMAIL}))
    await stage.submit(1, type=REPORT)
    answer = await ask(stage, 1)
    assert (answer.reason, answer.workers, answer.room) == (Reason.NO_WORKER, 0, 0)
    assert answer.sentence.startswith(f"No worker that is alive supports the type {REPORT}: start one with --app ")
    assert (answer.executor, answer.module) == ("local", None)
    await stage.truth.configs.put(a_config(REPORT, executor_type="htttp"))
    answer = await ask(stage, 1)
    needs = f"the type {REPORT}, which needs the executor htttp: start one that has it, with * or @htttp"
    assert needs in answer.sentence
    assert (answer.executor, answer.module) == ("htttp", None)
    await stage.truth.configs.put(a_config(REPORT, executor_config='{"function": "shop.jobs:run"}'))
    answer = await ask(stage, 1)
    way = "start one with --app shop.jobs, or add @local.shop.jobs to"
    assert f"whose function is in the module shop.jobs: {way}" in answer.sentence
    assert (answer.executor, answer.module) == ("local", "shop.jobs")
    await stage.hire(2, types=frozenset({"@local.shop"}))
    answer = await ask(stage, 1)
    assert (answer.workers, answer.executor, answer.module) == (1, None, None)


@staged
async def test_where_no_other_worker_can_join_the_one_process_is_to_have_the_function(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1, types=frozenset({EMAIL}))
    await stage.submit(1, type=REPORT)
    alone = "all of Rota is one process here, which no other worker can join; start it with"
    sentence = (await ask(stage, 1, is_alone=True)).sentence
    assert sentence.endswith(
        f"{REPORT}: {alone} the file that has its function (rota dev FILE.py, or rota server --app FILE.py)."
    )
    await stage.truth.configs.put(a_config(REPORT, executor_type="htttp"))
    sentence = (await ask(stage, 1, is_alone=True)).sentence
    assert sentence.endswith(f"needs the executor htttp: {alone} that, and * or @htttp in worker.types.")
    named = a_config(REPORT, executor_config='{"function": "shop.jobs:run"}', schedule=Schedule(every=MINUTE))
    await stage.truth.configs.put(named)
    answer = await ask(stage, 1, is_alone=True)
    how = "(rota dev shop.jobs, or rota server --app shop.jobs)"
    assert f"in the module shop.jobs: {alone} that {how}." in answer.sentence
    assert answer.sentence.endswith(f"Its schedule goes on meanwhile: rota schedule pause {REPORT} ends that.")
    assert answer.keeps_firing
    paused = replace(named, schedule=Schedule(every=MINUTE, is_paused=True))
    await stage.truth.configs.put(paused)
    answer = await ask(stage, 1, is_alone=True)
    assert "rota schedule pause" not in answer.sentence
    assert not answer.keeps_firing
    await stage.hire(2, types=frozenset({"@local.shop"}))
    await stage.truth.configs.put(named)
    assert "rota schedule pause" not in (await ask(stage, 1, is_alone=True)).sentence


@staged
async def test_busy_and_draining_workers_are_counted(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1, capacity=1)
    await stage.hire(2, is_draining=True)
    await stage.submit(1, 2)
    async with stage.reigning():
        answer = await ask(stage, 2)
    assert (answer.reason, answer.workers, answer.draining, answer.room) == (Reason.WORKERS_BUSY, 2, 1, 0)
    assert "(2) are busy or, 1 of them, draining" in answer.sentence


@staged
async def test_a_worker_that_is_busy_is_not_called_draining(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1, capacity=1)
    await stage.submit(1, 2)
    async with stage.reigning():
        assert (await ask(stage, 2)).sentence == "All workers that support it (1) are busy."


@staged
async def test_where_all_workers_drain_it_says_what_helps(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1, is_draining=True)
    await stage.submit(1)
    answer = await ask(stage, 1)
    assert (answer.reason, answer.workers, answer.draining) == (Reason.WORKERS_BUSY, 1, 1)
    way = "they take nothing new until they are resumed (rota worker resume ID)"
    assert answer.sentence == f"All workers that support it (1) are draining: {way}."


def test_a_limit_is_told_with_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "PAGE", 2)
    staged(_ask_about_a_limit)()


async def _ask_about_a_limit(stage: Stage) -> None:
    await crown(stage)
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=2))
    await stage.hire(1)
    await stage.submit(1, 2, 3)
    await stage.submit(4, 5, 6, type=REPORT)
    async with stage.reigning():
        answer = await ask(stage, 6)
        assert (answer.reason, answer.running, answer.max_concurrent) == (Reason.TYPE_LIMIT, 2, 2)
        assert answer.room == 5
        await stage.finish(4)
        assert (await ask(stage, 6)).reason is not Reason.TYPE_LIMIT


def test_no_more_running_attempts_are_counted_than_is_reasonable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "PAGE", 1)
    monkeypatch.setattr(explain, "MOST_PAGES", 2)
    staged(_ask_about_many)()


async def _ask_about_many(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=3))
    await stage.hire(1)
    await stage.submit(1, 2, 3, 4)
    async with stage.reigning():
        assert (await ask(stage, 4)).running == 2


@staged
async def test_a_rate_is_the_reason_only_for_who_waits_longer_than_a_moment(stage: Stage) -> None:
    await crown(stage)
    await stage.truth.configs.put(a_config(rate_per_second=0.5))
    await stage.hire(1)
    await stage.submit(1, due_at=NOW)
    await stage.submit(2, due_at=stage.clock.now())
    slow, fresh = await ask(stage, 1), await ask(stage, 2)
    assert (slow.reason, slow.rate_per_second) == (Reason.TYPE_RATE, 0.5)
    assert "0.5 times per second" in slow.sentence
    assert fresh.reason is Reason.QUEUED


@staged
async def test_the_global_rate_is_told(stage: Stage) -> None:
    await crown(stage)
    await stage.hire(1)
    await stage.submit(1)
    answer = await ask(stage, 1, global_rate=5.0)
    assert (answer.reason, answer.global_rate) == (Reason.GLOBAL_RATE, 5.0)


@staged
async def test_a_task_that_nothing_holds_up_is_queued_with_others(stage: Stage) -> None:
    await crown(stage)
    await stage.truth.configs.put(a_config())
    await stage.hire(1)
    await stage.submit(1, priority=5)
    await stage.submit(2, 3, priority=9)
    await stage.submit(4)
    answer = await ask(stage, 1)
    assert (answer.status, answer.reason, answer.ready) == (PENDING, Reason.QUEUED, 3)


@staged
async def test_workers_that_have_the_executor_of_a_type_are_counted_once(stage: Stage) -> None:
    await crown(stage)
    await stage.truth.configs.put(a_config(EMAIL, executor_type="http"))
    await stage.hire(1, capacity=3, types=frozenset({EMAIL, "@http"}))
    await stage.hire(2, capacity=4, types=frozenset({"@http"}))
    await stage.hire(3, capacity=5, types=frozenset({"@grpc"}))
    await stage.submit(1)
    answer = await ask(stage, 1)
    assert (answer.reason, answer.workers, answer.room) == (Reason.QUEUED, 2, 7)


@pytest.mark.parametrize(
    ("overlap", "told", "words"),
    [
        (Overlap.SKIP, Overlap.SKIP, "Until it has ended, the targets of its schedule are skipped (overlap: skip)."),
        (
            Overlap.QUEUE_ONE,
            Overlap.QUEUE_ONE,
            "Until it begins, the targets of its schedule are skipped (overlap: queue_one).",
        ),
        (Overlap.ALLOW, None, "name one in its config as executor.function, module:name."),
    ],
)
def test_a_run_that_cannot_begin_says_what_its_schedule_does_meanwhile(
    overlap: Overlap, told: Overlap | None, words: str
) -> None:
    @staged
    async def check(stage: Stage) -> None:
        await crown(stage)
        await stage.submit(1, type=REPORT)
        schedule = Schedule(every=MINUTE, overlap=overlap)
        config = a_config(REPORT, schedule=schedule, max_concurrent=1, last_run=TaskId(1))
        await stage.truth.configs.put(config)
        answer = await ask(stage, 1)
        assert answer.reason is Reason.NO_WORKER
        assert answer.sentence.endswith(words)
        assert answer.overlap is told

    check()
