"""`rota bench`: what it makes of a server's record, and what it says where it cannot measure."""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx2
import msgspec
import pytest
from rich.progress import Progress

from rota.client.folder import PLACE_FILE
from rota.interfaces.cli import bench as command
from rota.interfaces.cli.bench_run import LONE, Run, Spread
from rota.interfaces.cli.errors import FAILURE, UNAVAILABLE, USAGE
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CLUSTER, WORKER, FakeApi, page, task_like
from tests.unit.interfaces.test_cli_tasks import EXPLAINED

Printed = pytest.CaptureFixture[str]
BATCH = 4


class Bench:
    """A server that runs what it is given: each task starts 10 ms after its creation and takes 20 ms."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.worker_id: Any = None
        self.tasks: list[dict[str, Any]] = []
        api.on("POST /tasks", lambda request: self._create(json.loads(request.content), status=201))
        api.on("POST /tasks:batch", self._create_many)
        api.on("POST /tasks:cancel", {"matched": 0, "changed": 0, "skipped": 0, "has_more": False})

    def _create(self, wish: dict[str, Any], *, status: int) -> httpx2.Response:
        number = len(self.tasks)
        made = task_like(
            id=str(number + 1),
            type="sample_noop",
            status="SUCCESS",
            metadata=wish["metadata"],
            worker_id=self.worker_id,
            created_at=moment(number),
            started_at=moment(number, 10),
            completed_at=moment(number, 30),
        )
        self.tasks.append(made)
        self.api.on(f"GET /tasks/{made['id']}", made)
        newest = self.tasks[: LONE - 1 : -1]
        self.api.on("GET /tasks", page(*newest))
        return httpx2.Response(status, json=made)

    def _create_many(self, request: httpx2.Request) -> httpx2.Response:
        wishes = json.loads(request.content)["tasks"]
        answers = [self._create(wish, status=201) for wish in wishes]
        return httpx2.Response(201, json={"ids": [json.loads(answer.content)["id"] for answer in answers]})


def moment(second: int, milliseconds: int = 0) -> str:
    return f"2030-06-01T12:{second // 60:02d}:{second % 60:02d}.{milliseconds:03d}000Z"


@pytest.fixture
def bench(api: FakeApi) -> Bench:
    return Bench(api)


def sent_to(api: FakeApi, path: str) -> list[Any]:
    return [msgspec.json.decode(sent.content) for sent in api.sent if sent.url.path.endswith(path)]


def test_the_figures_are_those_of_the_servers_record(bench: Bench, capsys: Printed) -> None:
    assert run(["bench", "-n", "10", "--batch", str(BATCH), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tasks"], found["succeeded"], found["batch"]) == (10, 10, BATCH)
    assert found["completed_per_second"] == pytest.approx(10 / 9.03)
    assert found["start"] == found["lone_start"] == {"p50_seconds": 0.01, "p99_seconds": 0.01}
    assert found["result"] == {"p50_seconds": 0.03, "p99_seconds": 0.03}
    assert [len(body["tasks"]) for body in sent_to(bench.api, "/tasks:batch")] == [4, 4, 2]


def test_all_tasks_of_a_run_carry_its_mark_and_only_they_are_looked_for(bench: Bench) -> None:
    assert run(["bench", "-n", "3"]) == 0
    marks = {task["metadata"]["bench"] for task in bench.tasks}
    (listed,) = [sent for sent in bench.api.sent if sent.url.path.endswith("/tasks") and sent.method == "GET"]
    assert marks == {listed.url.params["metadata.bench"]}
    assert len(bench.tasks) == LONE + 3
    assert not sent_to(bench.api, "/tasks:cancel"), "a run that came to its end leaves nothing to cancel"


def test_people_read_lines(bench: Bench, capsys: Printed) -> None:
    assert run(["bench", "-n", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["created", "completed", *["create"] * 4]
    assert "p50      10.0 ms   p99      10.0 ms" in lines[2]


def test_who_ran_the_tasks_and_how_many_at_once_stands_beside_the_rates(bench: Bench, capsys: Printed) -> None:
    bench.worker_id = WORKER["id"]
    bench.api.on("GET /workers", page(WORKER, {**WORKER, "id": "999", "capacity": 700}))
    assert run(["bench", "-n", "5"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert " ".join(line.split()) == f"workers 1 hold {WORKER['capacity']} tasks at once (worker.capacity)"
    assert run(["bench", "-n", "5", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["workers"], found["capacity"]) == (1, WORKER["capacity"])


def test_somebody_who_looks_sees_two_bars(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, Any]] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(Progress, "update", lambda _self, bar, completed: shown.append((bar, completed)))
    assert run(["bench", "-n", "6", "--batch", "3"]) == 0
    assert [number for bar, number in shown if bar == 0] == [3, 6, 6, 6]
    assert [number for bar, number in shown if bar == 1] == [0, 0, 3, 6]


def test_a_type_that_nobody_knows_is_told_with_what_to_type(api: FakeApi, capsys: Printed) -> None:
    errors = [{"field": "type", "problem": "there is no task config for 'sample_noop'"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    assert run(["bench"]) == FAILURE
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota worker --app rota.sdk.samples"
    assert [sent.method for sent in api.sent] == ["POST", "GET"], "there is nothing to cancel"


@pytest.mark.parametrize(
    ("url", "told", "line"),
    [
        ("", "the rota dev of this folder is one process", "rota dev rota.sdk.samples --port 9321"),
        ("http://127.0.0.1:9000", "the server at http://127.0.0.1:9000 is", "rota dev rota.sdk.samples --port 9000"),
        ("https://rota.example", "the server at https://rota.example is", "rota server --app rota.sdk.samples"),
    ],
)
def test_where_all_is_one_process_it_is_to_be_started_with_the_samples(
    api: FakeApi, capsys: Printed, url: str, told: str, line: str
) -> None:
    PLACE_FILE.parent.mkdir()
    PLACE_FILE.write_text(f"{os.getpid()} http://127.0.0.1:9321", "utf-8")
    errors = [{"field": "type", "problem": "there is no task config for 'sample_noop'"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    api.on("GET /cluster", CLUSTER)
    assert run(["bench", *(["--url", url] if url else [])]) == FAILURE
    first, last = capsys.readouterr().err.splitlines()
    assert told in first
    assert last == f"try: {line}"


def test_where_others_can_join_a_worker_is_to_be_started_which_takes_no_url(api: FakeApi, capsys: Printed) -> None:
    errors = [{"field": "type", "problem": "there is no task config for 'sample_noop'"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    api.on("GET /cluster", {**CLUSTER, "coordinator": "redis"})
    assert run(["bench", "--url", "http://127.0.0.1:9000"]) == FAILURE
    first, last = capsys.readouterr().err.splitlines()
    assert "a worker with the samples is needed, with the settings of that server" in first
    assert last == "try: rota worker --app rota.sdk.samples"


def test_another_mistake_is_told_as_it_is(api: FakeApi, capsys: Printed) -> None:
    errors = [{"field": "metadata", "problem": "is too long"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    assert run(["bench"]) == USAGE
    assert "metadata" in capsys.readouterr().err


def test_where_no_worker_takes_it_the_reason_is_told_and_the_task_cancelled(
    bench: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.interfaces.cli.bench_run.PATIENCE", timedelta(0))
    keep_waiting(bench)
    bench.api.on("GET /tasks/1/explain", EXPLAINED)
    sweeps = iter([1, 0])
    bench.api.on("POST /tasks:cancel", lambda _: count(next(sweeps)))
    assert run(["bench"]) == FAILURE
    printed = capsys.readouterr().err
    assert "sample_noop did not run within 0 s: No worker." in printed
    assert "1 task that was left is cancelled" in printed
    assert printed.splitlines()[-1] == "try: rota worker --app rota.sdk.samples"


def keep_waiting(bench: Bench) -> None:
    """Every task of this server stays where it is."""
    create = bench._create

    def create_waiting(wish: dict[str, Any], *, status: int) -> httpx2.Response:
        answer = create(wish, status=status)
        waiting = {**json.loads(answer.content), "status": "PENDING", "started_at": None, "completed_at": None}
        bench.api.on(f"GET /tasks/{waiting['id']}", waiting)
        return httpx2.Response(status, json=waiting)

    bench._create = create_waiting  # type: ignore[method-assign]


def count(changed: int) -> httpx2.Response:
    return httpx2.Response(200, json={"matched": changed, "changed": changed, "skipped": 0, "has_more": False})


def interrupt(_request: httpx2.Request) -> httpx2.Response:
    raise KeyboardInterrupt


@pytest.mark.parametrize("route", ["POST /tasks:batch", "GET /tasks"])
def test_an_interrupted_run_cancels_what_is_left_of_it(bench: Bench, capsys: Printed, route: str) -> None:
    sweeps = iter([500, 3, 0])
    bench.api.on("POST /tasks:cancel", lambda _: count(next(sweeps)))
    stop_at(bench, route, answer=interrupt)
    assert run(["bench", "-n", "5"]) == FAILURE
    first = sent_to(bench.api, "/tasks:cancel")[0]
    assert first["type"] == ["sample_noop"]
    assert first["metadata"] == bench.tasks[0]["metadata"]
    assert "SUCCESS" not in first["status"]
    assert "503 tasks that were left are cancelled" in capsys.readouterr().err


def stop_at(bench: Bench, route: str, *, answer: Callable[[httpx2.Request], httpx2.Response]) -> None:
    """From the first batch on, this is what the server answers there."""
    create_many = bench._create_many

    def answer_late(request: httpx2.Request) -> httpx2.Response:
        made = create_many(request)
        bench.api.on(route, answer)
        return made

    bench.api.on("POST /tasks:batch", answer if route == "POST /tasks:batch" else answer_late)


def test_a_server_that_goes_away_is_told_and_what_was_left_too(bench: Bench, capsys: Printed) -> None:
    away = problem(503, "unavailable", detail="the store is away", headers={"Retry-After": "600"})
    bench.api.on("POST /tasks:cancel", away)
    bench.api.on("POST /tasks:batch", away)
    assert run(["bench", "-n", "5"]) == UNAVAILABLE
    assert "was not cancelled: the store is away" in capsys.readouterr().err


def test_a_run_whose_time_is_over_before_the_batches_says_that_none_was_created(
    bench: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "parse_duration", lambda *_: timedelta(seconds=-1))
    assert run(["bench", "-n", "5", "--url", "http://127.0.0.1:9000"]) == FAILURE
    first, last = capsys.readouterr().err.splitlines()
    told = "0 of the 20 that run one after the other had ended, and none of the 5 tasks was created"
    assert first == f"error: gave up after 5m: {told}"
    assert last == "try: rota top --url http://127.0.0.1:9000"


@pytest.fixture
def short(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A server on which time is over as soon as the ten of a run are created."""

    def left(_run: Run) -> timedelta:
        if len(bench.tasks) == LONE + 10:
            raise TimeoutError
        return timedelta(minutes=1)

    monkeypatch.setattr(Run, "_left", left)
    return bench


def end_some(bench: Bench, ended: int) -> None:
    """The server has so many of them ended when it is asked, and the others cancelled."""

    def list_then(_request: httpx2.Request) -> httpx2.Response:
        assert sent_to(bench.api, "/tasks:cancel"), "what is left is cancelled before it is counted"
        done, rest = bench.tasks[LONE : LONE + ended], bench.tasks[LONE + ended :]
        return httpx2.Response(200, json=page(*({**task, "status": "CANCELLED"} for task in rest), *done))

    stop_at(bench, "GET /tasks", answer=list_then)


TEN = ["bench", "-n", "10", "--batch", "5", "--timeout", "7m"]


def test_a_run_that_is_given_up_tells_what_ended_at_which_rate_and_what_fits(short: Bench, capsys: Printed) -> None:
    end_some(short, 4)
    assert run([*TEN, "--url", "http://127.0.0.1:9000"]) == FAILURE
    printed = capsys.readouterr()
    first, last = printed.err.splitlines()
    rate = "4 had ended (1.3 tasks/s over 3.0 s, from the first create to the last result), 6 had not"
    assert first == f"error: gave up after 7m: 10 of 10 tasks were created; {rate}"
    assert last == "try: rota bench -n 2 --timeout 7m --batch 5 --url http://127.0.0.1:9000"
    assert not printed.out


def test_a_run_of_which_nothing_ended_has_no_rate(short: Bench, capsys: Printed) -> None:
    end_some(short, 0)
    assert run(TEN) == FAILURE
    first, last = capsys.readouterr().err.splitlines()
    assert first == "error: gave up after 7m: 10 of 10 tasks were created, and none had ended"
    assert last == "try: rota top"


def test_a_run_that_is_given_up_and_whose_record_is_away_claims_nothing(short: Bench, capsys: Printed) -> None:
    stop_at(short, "GET /tasks", answer=lambda _: problem(403, "permission_denied"))
    assert run(TEN) == FAILURE
    first = capsys.readouterr().err.splitlines()[0]
    assert first.endswith("10 of 10 tasks were created; the server does not say how many have ended")


def crowd(bench: Bench, *, at_once: int, took_ms: int) -> None:
    """All are created in the first moment, and run so many at once, each round as long as it takes."""

    def list_crowded(_request: httpx2.Request) -> httpx2.Response:
        created = datetime.fromisoformat(moment(30))
        for place, task in enumerate(bench.tasks[LONE:]):
            started = created + timedelta(milliseconds=place // at_once * took_ms)
            ended = started + timedelta(milliseconds=took_ms)
            task |= {"created_at": moment(30), "started_at": started.isoformat(), "completed_at": ended.isoformat()}
        return httpx2.Response(200, json=page(*bench.tasks[LONE:]))

    stop_at(bench, "GET /tasks", answer=list_crowded)
    bench.worker_id = WORKER["id"]


@pytest.mark.parametrize(
    ("at_once", "took_ms", "is_limit"),
    [
        pytest.param(10, 25, True, id="full, and as fast as alone"),
        pytest.param(10, 200, False, id="full, but ten times as slow as alone: the machine is busy"),
        pytest.param(3, 25, False, id="places stay free"),
    ],
)
def test_where_capacity_is_the_limit_it_is_said_with_the_setting(
    bench: Bench, capsys: Printed, *, at_once: int, took_ms: int, is_limit: bool
) -> None:
    bench.api.on("GET /workers", page(WORKER))
    crowd(bench, at_once=at_once, took_ms=took_ms)
    assert run(["bench", "-n", "100"]) == 0
    assert ("start workers with --set worker.capacity=500, and measure again" in capsys.readouterr().out) is is_limit


def test_programs_are_told_whether_capacity_is_the_limit(bench: Bench, capsys: Printed) -> None:
    bench.api.on("GET /workers", page(WORKER))
    crowd(bench, at_once=10, took_ms=25)
    assert run(["bench", "-n", "100", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["limited_by_capacity"] is True


@pytest.mark.parametrize(
    ("capacity", "advice"), [(15, "--set worker.capacity=20, and"), (20, "start more workers, and")]
)
def test_more_capacity_is_advised_only_as_far_as_there_is_more(
    bench: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch, *, capacity: int, advice: str
) -> None:
    monkeypatch.setattr(command, "ENOUGH", 5)
    monkeypatch.setattr(command, "MAX_CAPACITY", 20)
    bench.api.on("GET /workers", page({**WORKER, "capacity": capacity}))
    crowd(bench, at_once=capacity, took_ms=25)
    assert run(["bench", "-n", "100"]) == 0
    assert advice in capsys.readouterr().out


def test_a_task_that_is_still_under_way_in_the_end_is_waited_for(bench: Bench, capsys: Printed) -> None:
    def list_early(_request: httpx2.Request) -> httpx2.Response:
        first, *others = bench.tasks[LONE:]
        return httpx2.Response(200, json=page(*others, {**first, "status": "PROCESSING", "completed_at": None}))

    stop_at(bench, "GET /tasks", answer=list_early)
    assert run(["bench", "-n", "5", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["succeeded"] == 5


def test_tasks_that_fail_fail_the_run(bench: Bench, capsys: Printed) -> None:
    def list_failed(_request: httpx2.Request) -> httpx2.Response:
        first, *others = bench.tasks[LONE:]
        return httpx2.Response(200, json=page(*others, {**first, "status": "FAILED", "started_at": None}))

    stop_at(bench, "GET /tasks", answer=list_failed)
    assert run(["bench", "-n", "5", "-o", "name", "--url", "http://127.0.0.1:9000"]) == FAILURE
    printed = capsys.readouterr()
    assert printed.out == "1\n"
    assert "1 of 5 tasks did not succeed" in printed.err
    which = "--status failed --status timeout --status cancelled"
    assert f"try: rota task ls --type sample_noop {which} --url http://127.0.0.1:9000" in printed.err


def test_tasks_that_are_not_on_record_are_told_apart_from_those_that_failed(bench: Bench, capsys: Printed) -> None:
    stop_at(bench, "GET /tasks", answer=lambda _: httpx2.Response(200, json=page(*bench.tasks[LONE + 2 :])))
    assert run(["bench", "-n", "5", "-o", "json"]) == FAILURE
    printed = capsys.readouterr()
    assert json.loads(printed.out)["tasks"] == 3
    assert "2 of 5 tasks are not on record" in printed.err


def test_where_none_is_on_record_that_is_told_without_figures(bench: Bench, capsys: Printed) -> None:
    stop_at(bench, "GET /tasks", answer=lambda _: httpx2.Response(200, json=page()))
    assert run(["bench", "-n", "1"]) == FAILURE
    printed = capsys.readouterr()
    assert "the server has none of the 1 task on record" in printed.err
    assert not printed.out


def test_tasks_of_a_node_whose_clock_is_behind_are_found(bench: Bench, capsys: Printed) -> None:
    def list_by_ids(request: httpx2.Request) -> httpx2.Response:
        """As a server does: ids carry the time of the node that gave them, here a minute behind the store's."""
        after = datetime.fromisoformat(request.url.params["created_after"])
        ids_begin = datetime.fromisoformat(bench.tasks[LONE]["created_at"]) - timedelta(minutes=1)
        return httpx2.Response(200, json=page(*(bench.tasks[LONE:] if ids_begin > after else [])))

    stop_at(bench, "GET /tasks", answer=list_by_ids)
    assert run(["bench", "-n", "5", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 5


def test_whoever_interrupts_the_first_submission_leaves_nothing_behind(bench: Bench, capsys: Printed) -> None:
    def interrupt_the_answer(request: httpx2.Request) -> httpx2.Response:
        bench._create(json.loads(request.content), status=201)
        raise KeyboardInterrupt

    bench.api.on("POST /tasks", interrupt_the_answer)
    assert run(["bench", "-n", "5"]) == FAILURE
    (swept,) = sent_to(bench.api, "/tasks:cancel")
    assert swept["metadata"] == bench.tasks[0]["metadata"]


def test_a_server_that_was_never_asked_has_nothing_to_cancel(api: FakeApi, capsys: Printed) -> None:
    def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    api.on("POST /tasks", refuse)
    assert run(["bench", "--url", "http://127.0.0.1:9000"]) == UNAVAILABLE
    assert "cancelled" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-n", "0"], ["-n", "100001"], ["--batch", "1001"], ["--timeout", "soon"]])
def test_a_run_is_bounded(api: FakeApi, words: list[str]) -> None:
    assert run(["bench", *words]) == USAGE
    assert not api.sent


def test_a_spread_is_of_what_most_and_nearly_all_took() -> None:
    waits = [timedelta(milliseconds=number) for number in range(100, 0, -1)]
    assert Spread.of(waits) == Spread(p50=timedelta(milliseconds=51), p99=timedelta(milliseconds=100))
    assert Spread.of([]) == Spread(p50=timedelta(0), p99=timedelta(0))
