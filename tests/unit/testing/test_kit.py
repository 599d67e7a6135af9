"""Users' own tasks in their own tests: the real engine on virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.domain.errors import ConfigError, ConflictError, InvalidError
from rota.domain.ids import TaskId
from rota.domain.schedule import Schedule
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, SUCCESS, TIMEOUT
from rota.sdk.tasks import TaskFunction, TaskOptions, define
from rota.testing import advance, run
from rota.testing.values import replace


def a_task(function: Callable[..., Any], **options: Any) -> TaskFunction[..., Any]:
    """Decorated, but known to its own test alone."""
    return TaskFunction(function, define("job", TaskOptions(**options)))  # type: ignore[typeddict-item] # any of them


async def fail_twice(ctx: rota.Context) -> int:
    if ctx.attempt < 3:
        raise RuntimeError(f"attempt {ctx.attempt} fails")
    return ctx.attempt


async def sleep(seconds: float = 60.0) -> str:
    await asyncio.sleep(seconds)  # noqa: TID251 virtual
    return "rested"


def submit_and_wait(payload: Any = None, **options: Any) -> Callable[[rota.Rota], Awaitable[rota.TaskView]]:
    async def scenario(app: rota.Rota) -> rota.TaskView:
        return await (await app.submit("job", payload, **options)).wait("1d")

    return scenario


def passed(view: rota.TaskView) -> float:
    """Seconds of virtual time from submission to the end."""
    assert view.completed_at is not None
    return (view.completed_at - view.created_at).total_seconds()


def test_the_pauses_between_retries_pass_at_once() -> None:
    view = run(submit_and_wait(), [a_task(fail_twice, retries=5, retry_delay="2m")])
    assert (view.status, view.attempt, view.retry_count) == (SUCCESS, 3, 2)
    assert view.result is not None
    assert view.result.data == 3
    assert passed(view) > 120


def test_a_task_out_of_retries_has_failed_with_its_error() -> None:
    view = run(submit_and_wait(), [a_task(fail_twice, retries=1)])
    assert (view.status, view.attempt) == (FAILED, 2)
    assert view.error is not None
    assert view.error.message == "attempt 2 fails"


def test_a_coroutine_is_ended_at_its_timeout() -> None:
    view = run(submit_and_wait({"seconds": 600}), [a_task(sleep, timeout="30s", retries=0)])
    assert view.status is TIMEOUT
    assert passed(view) == pytest.approx(30, abs=2)


def test_a_delayed_task_begins_when_it_is_due() -> None:
    view = run(submit_and_wait({"seconds": 0}, delay="3m"), [a_task(sleep)])
    assert view.started_at is not None
    assert (view.started_at - view.created_at).total_seconds() == pytest.approx(180, abs=1)


def test_a_running_task_is_cancelled() -> None:
    stopped = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async def scenario(app: rota.Rota) -> rota.TaskView:
        handle = await app.submit("job")
        await advance("5s")
        assert (await handle.get()).status is PROCESSING
        await handle.cancel("enough")
        await advance("5s")
        assert stopped, "the coroutine itself was ended"
        return await handle.wait()

    assert run(scenario, [a_task(wait_for_ever)]).status is CANCELLED


def test_a_snoozed_task_runs_again_without_spending_a_retry() -> None:
    async def not_yet(ctx: rota.Context) -> None:
        if ctx.attempt == 1:
            raise rota.Snooze("1m")

    view = run(submit_and_wait(), [a_task(not_yet, retries=0)])
    assert (view.status, view.attempt, view.retry_count) == (SUCCESS, 2, 0)
    assert passed(view) >= 60


def test_a_task_that_gives_up_is_not_tried_again() -> None:
    async def give_up() -> None:
        raise rota.Fail("no such customer")

    view = run(submit_and_wait(), [a_task(give_up, retries=5)])
    assert (view.status, view.attempt) == (FAILED, 1)


def test_a_plain_function_is_a_plain_call() -> None:
    def add(left: int, right: int) -> int:
        return left + right

    view = run(submit_and_wait({"left": 2, "right": 3}), [a_task(add)])
    assert view.result is not None
    assert view.result.data == 5


def test_a_payload_that_does_not_fit_is_told_and_not_tried_again() -> None:
    view = run(submit_and_wait({"seconds": "soon"}), [a_task(sleep, retries=5)])
    assert (view.status, view.attempt) == (FAILED, 1)
    assert view.error is not None
    assert view.error.code == "bad_payload"
    assert "seconds" in view.error.message


def test_a_task_knows_itself() -> None:
    async def tell(ctx: rota.Context) -> dict[str, Any]:
        left = ctx.deadline.total_seconds()
        return {"id": ctx.task_id, "type": ctx.type, "who": ctx.metadata["who"], "left": left, "off": ctx.cancelled}

    view = run(submit_and_wait(metadata={"who": "ada"}), [a_task(tell, timeout="40s")])
    assert view.result is not None
    assert view.result.data.pop("left") == pytest.approx(40, abs=1)
    assert view.result.data == {"id": view.id, "type": "job", "who": "ada", "off": False}


def test_the_lines_of_a_task_are_in_its_log() -> None:
    async def talk(ctx: rota.Context) -> None:
        await ctx.progress(0.5, "half")
        ctx.log.info("sending", to="ada")
        ctx.log.warning("slow")

    async def scenario(app: rota.Rota) -> list[tuple[str, str]]:
        view = await (await app.submit("job")).wait()
        entries = await app._node.store.logs.read(TaskId(int(view.id)))
        return [(entry.message, entry.detail) for entry in entries if entry.to_status is None]

    half, sending, slow = run(scenario, [a_task(talk)])
    assert half[0] == "half"
    assert (sending[0], json.loads(sending[1])) == ("sending", {"to": "ada"})
    assert slow == ("slow", "")


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    async def scenario(app: rota.Rota) -> list[tuple[str, float]]:
        handles = await app.submit_many("job", [None] * 10)
        views = [await handle.wait("1d") for handle in handles]
        return [(view.id, passed(view)) for view in views]

    tasks = [a_task(fail_twice, retries=5)]
    assert run(scenario, tasks, seed=7) == run(scenario, tasks, seed=7)
    assert run(scenario, tasks, seed=7) != run(scenario, tasks, seed=8)


def test_time_passes_as_far_as_it_is_advanced() -> None:
    async def scenario(app: rota.Rota) -> None:
        handle = await app.submit("job", {"seconds": 240})
        await advance("3m")
        assert (await handle.get()).status is PROCESSING
        await advance("2m")
        assert (await handle.get()).status is SUCCESS

    run(scenario, [a_task(sleep, timeout="5m")])


def test_settings_apply_however_they_are_spelled() -> None:
    async def scenario(app: rota.Rota) -> set[str]:
        handles = await app.submit_many("job", [None] * 3)
        await advance("1s")
        return {(await handle.get()).status for handle in handles}

    for settings in ({"worker": {"capacity": 1}}, {"worker.capacity": 1}):
        assert run(scenario, [a_task(sleep)], settings=settings) == {PENDING, PROCESSING}
    assert run(scenario, [a_task(sleep)]) == {PROCESSING}


def test_a_settings_file_that_lies_around_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rota.yaml").write_text("worker: {types: [something_else]}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(submit_and_wait({"seconds": 0}), [a_task(sleep)]).status is SUCCESS


def test_without_tasks_given_all_that_were_decorated_can_run() -> None:
    @rota.task("kit_decorated")
    async def decorated() -> str:
        return "ran"

    async def scenario(app: rota.Rota) -> Any:
        view = await (await app.submit("kit_decorated")).wait()
        return view.result and view.result.data

    assert run(scenario) == "ran"


def test_a_task_that_was_not_given_is_refused() -> None:
    async def scenario(app: rota.Rota) -> None:
        await app.submit("other")

    with pytest.raises(InvalidError, match="other"):
        run(scenario, [a_task(sleep)])


def test_a_scenario_that_fails_fails_the_test() -> None:
    async def scenario(app: rota.Rota) -> None:
        assert (await app.count()) == {SUCCESS: 1}

    with pytest.raises(AssertionError):
        run(scenario, [])


def test_used_after_its_end_it_says_so() -> None:
    kept: list[rota.Rota] = []

    async def keep(app: rota.Rota) -> None:
        kept.append(app)

    run(keep, [a_task(sleep)])

    async def main() -> None:
        with pytest.raises(ConflictError, match="async with"):
            await kept[0].submit("job")

    asyncio.run(main())


def test_the_pauses_of_a_schedule_pass_at_once() -> None:
    runs = []

    async def sweep(ctx: rota.Context) -> None:
        runs.append(ctx.task_id)

    async def scenario(app: rota.Rota) -> dict[str, int]:
        await advance("25m")
        return {str(status): number for status, number in (await app.count()).items()}

    made = a_task(sweep)
    by_clock = TaskFunction(sweep, replace(made.definition, schedule=Schedule(cron="*/10 * * * *")))
    assert run(scenario, [by_clock]) == {SUCCESS: 2}
    assert len(set(runs)) == 2


def count_timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The virtual times for which somebody sets a timer from now on: what a stretch of virtual time costs."""
    loop, wakes = asyncio.get_running_loop(), list[float]()
    set_timer = loop.call_at

    def call_at(when: float, *rest: Any, **context: Any) -> asyncio.TimerHandle:
        wakes.append(when)
        return set_timer(when, *rest, **context)

    monkeypatch.setattr(loop, "call_at", call_at)
    return wakes


def test_a_day_without_work_costs_some_thousand_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(_: rota.Rota) -> int:
        await advance("1m")
        wakes = count_timers(monkeypatch)
        await advance("1d")
        return len(wakes)

    assert run(scenario, [a_task(sleep)]) < 10_000


def test_a_task_snoozed_for_a_day_costs_no_more_and_begins_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rest_a_day(ctx: rota.Context) -> None:
        if ctx.attempt == 1:
            raise rota.Snooze("1d")

    async def scenario(app: rota.Rota) -> tuple[rota.TaskView, int]:
        wakes = count_timers(monkeypatch)
        task = await (await app.submit("job")).wait("2d")
        return task, len(wakes)

    view, wakes = run(scenario, [a_task(rest_a_day)])
    assert (view.status, view.attempt) == (SUCCESS, 2)
    assert passed(view) == pytest.approx(86400, abs=1)
    assert wakes < 10_000


def test_what_runs_for_hours_is_cancelled_within_a_second() -> None:
    ended_at: list[float] = []

    async def go_on() -> None:
        try:
            await asyncio.sleep(86400)  # noqa: TID251 virtual
        finally:
            ended_at.append(asyncio.get_running_loop().time())

    async def scenario(app: rota.Rota) -> float:
        handle = await app.submit("job")
        await advance("3h")
        asked_at = asyncio.get_running_loop().time()
        await handle.cancel()
        await advance("2s")
        return ended_at[0] - asked_at

    assert run(scenario, [a_task(go_on, timeout="1d")]) < 1


@pytest.mark.parametrize(
    ("type_name", "payload", "told"),
    [
        ("job", {"seconds": float("nan")}, "payload.seconds: is NaN, which is not a JSON number"),
        ("jobb", {}, "type: there is no task config for 'jobb'; did you mean 'job'?"),
    ],
)
def test_what_is_wrong_with_a_submission_is_named(type_name: str, payload: dict[str, Any], told: str) -> None:
    async def scenario(app: rota.Rota) -> None:
        with pytest.raises(InvalidError) as caught:
            await app.submit(type_name, payload)
        assert str(caught.value) == told
        with pytest.raises(InvalidError, match=told.rpartition(": ")[2].replace("?", "")):
            await app.submit_many(type_name, [payload])

    run(scenario, [a_task(sleep)])


def test_an_option_that_nobody_knows_is_refused_with_the_one_that_may_be_meant() -> None:
    async def scenario(app: rota.Rota) -> None:
        with pytest.raises(TypeError, match="'dealy' is not known; did you mean delay"):
            await app.submit("job", dealy="5s")  # type: ignore[call-arg] # a slip

    run(scenario, [a_task(sleep)])


def test_a_setting_that_is_wrong_is_not_said_to_come_from_a_command_line() -> None:
    with pytest.raises(ConfigError, match=r"scheduler\.batch_size in the settings given"):
        run(submit_and_wait(), [a_task(sleep)], settings={"scheduler": {"batch_size": "some"}})
