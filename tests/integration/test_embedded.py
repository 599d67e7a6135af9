"""The whole system inside a program, on a real SQLite file: submit, wait, steer, leave."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import rota
from rota.config.load import SettingsError
from rota.domain.errors import ConfigError, ConflictError, IllegalTransitionError, InvalidError, NotFoundError
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, SUCCESS
from rota.domain.waiting import Reason
from rota.sdk.tasks import TaskFunction, TaskOptions, TaskRegistry, define

NOWHERE = "7"  # the id of no task


class Jobs:
    """Tasks that note what they did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.registry = TaskRegistry()
        for name in ("echo", "fail", "hang", "advance"):
            self.registry.add(TaskFunction(getattr(self, name), define(name, TaskOptions(retries=0))))

    async def echo(self, value: Any = None) -> Any:
        self.ran.append(value)
        return value

    async def fail(self) -> None:
        self.ran.append("fail")
        raise RuntimeError("it does not work")

    async def advance(self, ctx: rota.Context) -> None:
        await ctx.progress(0.25, "one of four")
        await asyncio.Event().wait()

    async def hang(self) -> None:
        self.ran.append("hang")
        await asyncio.Event().wait()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def on_sqlite(folder: Path, **sections: Any) -> dict[str, Any]:
    return {"store": {"url": f"sqlite:///{folder}/jobs.db"}, "metrics": {"collector": "none"}, **sections}


@pytest_asyncio.fixture
async def app(tmp_path: Path, jobs: Jobs) -> AsyncIterator[rota.Rota]:
    settings = on_sqlite(tmp_path, worker={"capacity": 1, "drain_timeout": "100ms", "stop_grace": "100ms"})
    async with rota.Rota(settings, tasks=jobs.registry) as running:
        yield running


async def until_running(handle: rota.Handle, app: rota.Rota) -> None:
    """Wait for the event of its grant, or see that it was before."""
    async with asyncio.timeout(20), app._node.coordinator.signals.subscribe() as events:
        if (await handle.get()).status is PENDING:
            async for _, event in events:
                if event is not None and str(event.task_id) == handle.id and event.status is PROCESSING:
                    return


async def test_tasks_may_be_given_as_a_list(tmp_path: Path) -> None:
    async def double(number: int) -> int:
        return 2 * number

    tasks = [TaskFunction(double, define("double", TaskOptions()))]
    async with rota.Rota(on_sqlite(tmp_path), tasks=tasks) as app:
        task = await (await app.submit("double", {"number": 4})).wait("20s")
    assert task.result is not None
    assert task.result.data == 8


async def test_a_submitted_task_runs_and_its_result_is_waited_for(app: rota.Rota) -> None:
    task = await (await app.submit("echo", {"value": [1, "ä"]})).wait("60s")
    assert (task.status, task.attempt) == (SUCCESS, 1)
    assert task.result is not None
    assert task.result.data == [1, "ä"]


async def test_what_was_submitted_outlives_the_program(tmp_path: Path, jobs: Jobs) -> None:
    settings = on_sqlite(tmp_path)
    async with rota.Rota(settings, roles=["worker"], tasks=jobs.registry) as app:  # nobody dispatches
        handle = await app.submit("echo", {"value": 1})
        assert (await app.get(handle.id)).status is PENDING
    async with rota.Rota(settings, tasks=jobs.registry) as app:
        assert (await app.wait(handle.id, "20s")).status is SUCCESS


async def test_many_are_submitted_at_once_and_counted(app: rota.Rota) -> None:
    handles = await app.submit_many("echo", [{"value": number} for number in range(20)])
    ends = await asyncio.gather(*(handle.wait("60s") for handle in handles))
    assert [task.result and task.result.data for task in ends] == list(range(20))
    assert await app.count() == {SUCCESS: 20}


async def test_of_many_all_are_submitted_or_none(app: rota.Rota) -> None:
    with pytest.raises(InvalidError, match=r"tasks\[1\]"):
        await app.submit_many("echo", [{"value": 1}, {"value": object()}])
    assert await app.count() == {}


async def test_a_delayed_task_waits_and_says_until_when(app: rota.Rota) -> None:
    handle = await app.submit("echo", delay="1h")
    why = await app.explain(handle.id)
    assert why.reason is Reason.NOT_DUE
    task = await handle.get()
    assert task.scheduled_at is not None
    assert (task.scheduled_at - task.created_at).total_seconds() == 3600


async def test_the_more_urgent_one_runs_first(app: rota.Rota, jobs: Jobs) -> None:
    first = await app.submit("hang")
    await until_running(first, app)
    handles = [await app.submit("echo", {"value": level}, priority=level) for level in ("normal", "urgent")]
    await first.cancel()
    for handle in handles:
        await handle.wait("60s")
    assert jobs.ran == ["hang", "urgent", "normal"]


async def test_the_same_key_is_the_same_task(app: rota.Rota) -> None:
    first = await app.submit("echo", {"value": 1}, idempotency_key="order-7")
    again = await app.submit("echo", {"value": 1}, idempotency_key="order-7")
    assert again.id == first.id
    with pytest.raises(ConflictError):
        await app.submit("echo", {"value": 2}, idempotency_key="order-7")


async def test_a_running_task_says_how_far_it_got_until_it_has_ended(app: rota.Rota) -> None:
    handle = await app.submit("advance")
    async with asyncio.timeout(60), app._node.coordinator.signals.subscribe() as events:
        while (progress := (await handle.get()).progress) is None:
            await anext(events)
    assert (progress.fraction, progress.message) == (0.25, "one of four")
    assert (await handle.cancel()).progress is None
    assert (await handle.get()).progress is None


async def test_a_running_task_is_cancelled(app: rota.Rota) -> None:
    handle = await app.submit("hang")
    await until_running(handle, app)
    assert (await handle.cancel("enough")).status is CANCELLED
    after = await app.submit("echo")
    assert (await after.wait("60s")).status is SUCCESS, "its place is free again"


async def test_a_failed_task_is_done_again_as_a_new_one(app: rota.Rota, jobs: Jobs) -> None:
    failed = await app.submit("fail")
    assert (await failed.wait("60s")).status is FAILED
    again = await app.retry(failed.id)
    task = await again.wait("60s")
    assert (task.rerun_of, task.status) == (failed.id, FAILED)
    assert jobs.ran == ["fail", "fail"]


async def test_a_task_that_has_not_ended_cannot_be_done_again(app: rota.Rota) -> None:
    with pytest.raises(IllegalTransitionError):
        await app.retry((await app.submit("echo", delay="1h")).id)


async def test_waiting_longer_than_allowed_is_a_timeout(app: rota.Rota) -> None:
    handle = await app.submit("echo", delay="1h")
    with pytest.raises(TimeoutError, match=f"task {handle.id} is still PENDING"):
        await handle.wait("50ms")


async def test_a_task_that_does_not_exist_is_not_found(app: rota.Rota) -> None:
    for ask in (app.get, app.wait, app.cancel, app.retry, app.explain):
        with pytest.raises(NotFoundError):
            await ask(NOWHERE)


async def test_what_is_no_id_is_said_to_be_none(app: rota.Rota) -> None:
    with pytest.raises(InvalidError):
        await app.get("nonsense")


async def test_a_lock_is_held_by_one_block_at_a_time(app: rota.Rota) -> None:
    async with app.lock("import", ttl="10s") as first:
        with pytest.raises(TimeoutError):
            async with app.lock("import", timeout=0):
                pass
        async with app.lock("export", timeout=0):
            pass
    async with app.lock("import", timeout=0) as second:
        assert second > first


@pytest.mark.parametrize(("name", "ttl"), [("no name", "30s"), ("import", "10ms"), ("import", "soon")])
async def test_a_lock_that_makes_no_sense_is_refused(app: rota.Rota, name: str, ttl: str) -> None:
    with pytest.raises(InvalidError):
        app.lock(name, ttl)


async def test_outside_of_its_context_it_says_how_it_is_used(tmp_path: Path, jobs: Jobs) -> None:
    app = rota.Rota(on_sqlite(tmp_path), tasks=jobs.registry)
    for _ in range(2):
        with pytest.raises(ConflictError, match=r"async with rota\.Rota"):
            await app.submit("echo")
        with pytest.raises(ConflictError, match=r"async with rota\.Rota"):
            await app.get(NOWHERE)
        async with app:  # may be entered again
            assert (await (await app.submit("echo")).wait("60s")).status is SUCCESS


async def test_leaving_waits_for_submissions_under_way(tmp_path: Path, jobs: Jobs) -> None:
    async with rota.Rota(on_sqlite(tmp_path), roles=["worker"], tasks=jobs.registry) as app:
        submitting = [asyncio.create_task(app.submit("echo")) for _ in range(5)]
        while not app._desk._grouped._lanes:
            await asyncio.wait(submitting, timeout=0)
    assert len({handle.id for handle in await asyncio.gather(*submitting)}) == 5


async def test_leaving_lets_what_runs_finish(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), list[str]()

    async def finish() -> None:
        loop.call_soon_threadsafe(begun.set)
        for _ in range(3):
            await asyncio.to_thread(ended.append, "step")

    loop = asyncio.get_running_loop()
    registry = TaskRegistry()
    registry.add(TaskFunction(finish, define("finish", {})))
    async with rota.Rota(on_sqlite(tmp_path), tasks=registry) as app:
        handle = await app.submit("finish")
        await begun.wait()
    assert len(ended) == 3
    async with rota.Rota(on_sqlite(tmp_path), roles=(), tasks=registry) as app:
        assert (await app.get(handle.id)).status is SUCCESS


async def test_all_of_it_works_in_memory(jobs: Jobs) -> None:
    settings = {"store": {"url": "memory://"}, "metrics": {"collector": "none"}}
    async with rota.Rota(settings, tasks=jobs.registry) as app:
        assert (await (await app.submit("echo")).wait("60s")).status is SUCCESS


async def test_all_of_it_works_with_queues_in_the_database(tmp_path: Path, jobs: Jobs) -> None:
    settings = on_sqlite(tmp_path, coordinator={"url": "sql://"})
    async with rota.Rota(settings, tasks=jobs.registry) as app:
        assert (await (await app.submit("echo")).wait("60s")).status is SUCCESS


async def test_settings_come_from_a_file_and_the_environment(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"store: {{url: 'sqlite:///{tmp_path}/from-file.db'}}\nworker: {{capacity: 3}}\n", "utf-8")
    monkeypatch.setenv("ROTA_WORKER__CAPACITY", "4")
    async with rota.Rota(str(file), tasks=jobs.registry) as app:
        worker = app._get_built().roles.worker
        assert worker is not None
        assert worker.capacity == 4
    assert (tmp_path / "from-file.db").exists()


async def test_without_settings_it_reads_what_the_command_line_would(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rota.yaml").write_text("store: {url: 'sqlite:///found.db'}", "utf-8")
    async with rota.Rota(roles=(), tasks=jobs.registry) as app:
        assert await app.count() == {}
    assert (tmp_path / "found.db").exists()


async def test_a_mapping_stands_alone(tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_WORKER__CAPACITY", "4")
    (tmp_path / "rota.yaml").write_text("worker: {capacity: 5}", "utf-8")
    async with rota.Rota(on_sqlite(tmp_path), tasks=jobs.registry) as app:
        worker = app._get_built().roles.worker
        assert worker is not None
        assert worker.capacity == 10


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"worker": {"capcity": 5}}, r"worker\.capcity.*did you mean worker\.capacity"),
        ({"werker": {"capacity": 5}}, r"werker\.capacity"),
        ({"scheduler": {"balancer": "best"}}, "unknown balancer 'best'"),
        ({"worker": {"capacity": 0}}, r"worker\.capacity"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        async with rota.Rota(settings):
            pass


async def test_queues_in_a_database_need_a_store_with_one() -> None:
    with pytest.raises(ConfigError, match="sql:// stands for the store's own database"):
        async with rota.Rota({"store": {"url": "memory://"}, "coordinator": {"url": "sql://"}}):
            pass


async def test_the_app_is_loaded_from_its_file(tmp_path: Path) -> None:
    source = (
        "import rota\n\n@rota.task('embedded_app_greet')\nasync def greet(name: str) -> str:\n    return 'hi ' + name\n"
    )
    (tmp_path / "embedded_app.py").write_text(source, "utf-8")
    async with rota.Rota(on_sqlite(tmp_path), app=str(tmp_path / "embedded_app.py")) as app:
        task = await (await app.submit("embedded_app_greet", {"name": "Ada"})).wait("60s")
        assert task.result is not None
        assert task.result.data == "hi Ada"


async def test_a_waiting_task_is_made_more_urgent(app: rota.Rota) -> None:
    handle = await app.submit("echo", delay="1h")
    assert (await app.reprioritise(handle.id, "urgent")).priority == 9


async def test_the_record_of_a_task_can_be_read(app: rota.Rota) -> None:
    handle = await app.submit("echo")
    await handle.wait("60s")
    statuses = [entry.to_status for entry in await app.logs(handle.id) if entry.to_status]
    assert statuses == [PENDING, PROCESSING, SUCCESS]
    with pytest.raises(NotFoundError):
        await app.logs(NOWHERE)


async def test_a_plain_function_of_the_program_itself_is_refused_with_the_way_out(tmp_path: Path) -> None:
    def compute() -> int:
        return 1

    compute.__module__ = "__main__"
    registry = TaskRegistry()
    registry.add(TaskFunction(compute, define("compute", TaskOptions())))
    with pytest.raises(ConfigError, match="in the program itself") as caught:
        async with rota.Rota(on_sqlite(tmp_path), tasks=registry):
            pass
    assert "isolation='thread'" in caught.value.fix


async def test_a_role_that_does_not_exist_is_refused(tmp_path: Path, jobs: Jobs) -> None:
    with pytest.raises(ConfigError, match="no role 'boss'") as caught:
        async with rota.Rota(on_sqlite(tmp_path), roles=["boss"], tasks=jobs.registry):
            pass
    assert caught.value.fix == "roles of api, scheduler, worker"


async def test_a_rota_that_ended_by_itself_takes_nothing_any_more(app: rota.Rota) -> None:
    built = app._get_built()
    assert built.running is not None
    assert built.roles.worker is not None
    built.roles.worker.stop()  # nobody asked the process to end, so a worker that does is a failure
    await asyncio.wait({built.running}, timeout=20)
    with pytest.raises(ConflictError, match="must be started anew"):
        await app.submit("echo")
    app._stack.pop_all()  # leaving would raise the same again
    app._built = None


async def test_a_worker_takes_the_types_that_it_has(tmp_path: Path, jobs: Jobs) -> None:
    other = TaskRegistry()
    other.add(TaskFunction(jobs.echo, define("elsewhere", TaskOptions())))
    settings = on_sqlite(tmp_path, coordinator={"url": "sql://"})
    async with rota.Rota(settings, tasks=jobs.registry) as first, rota.Rota(settings, roles=["worker"], tasks=other):
        handles = await first.submit_many("echo", [{}] * 8) + [await first.submit("elsewhere")]
        assert {(await handle.wait("60s")).attempt for handle in handles} == {1}


EMBEDDING = """
import asyncio, rota

@rota.task("swallow", timeout="500ms", retries=0)
async def swallow() -> None:
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            pass

async def main() -> None:
    async with rota.Rota({"store": {"url": "memory://"}}) as app:
        print((await (await app.submit("swallow")).wait("20s")).status)

asyncio.run(main())
"""


async def test_a_program_ends_though_a_coroutine_in_it_swallows_everything() -> None:
    """Closed with the interpreter, it would go on without end: on a loop that is closed it cannot even wait."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", EMBEDDING, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(25):
            said, _ = await program.communicate()
    finally:
        with suppress(ProcessLookupError):
            program.kill()
    assert (said.decode().strip(), program.returncode) == ("TIMEOUT", 0)
