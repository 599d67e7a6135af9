"""`rota bench`: what it makes of a server's record, and what it says where it cannot measure."""

import json
import os
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from rota.client.folder import PLACE_FILE
from rota.interfaces.cli import bench as command
from rota.interfaces.cli.bench_run import LONE, Spread
from rota.interfaces.cli.errors import FAILURE, USAGE
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CLUSTER, CONFIG, WORKER, FakeApi, page
from tests.unit.interfaces.fake_bench import Bench, count, keep_waiting, moment, sent_to, stop_at, watch_bars
from tests.unit.interfaces.test_cli_tasks import EXPLAINED

Printed = pytest.CaptureFixture[str]
BATCH = 4


@pytest.fixture
def bench(api: FakeApi) -> Bench:
    return Bench(api)


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


@pytest.mark.parametrize(("number", "is_told"), [(299, False), (300, True)])
def test_of_few_tasks_nothing_is_said_of_the_queue(
    bench: Bench, capsys: Printed, *, number: int, is_told: bool
) -> None:
    assert run(["bench", "-n", str(number)]) == 0
    assert ("most of it is waiting in the queue" in capsys.readouterr().out) is is_told


def queues(*, ready: int, running: int) -> dict[str, Any]:
    levels = [{"priority": level, "ready": ready if level == 0 else 0, "oldest_age_seconds": None} for level in (9, 0)]
    return {"items": levels, "delayed": 7, "assigned": 1, "running": running}


def test_what_was_there_before_is_told_before_and_in_the_result(bench: Bench, capsys: Printed) -> None:
    bench.api.on("GET /queues", queues(ready=17_000, running=10))
    assert run(["bench", "-n", "5"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("note: 17,011 tasks stood in the queues or ran before this")
    assert bench.api.sent[0].url.path.endswith("/queues"), "before there is any task of this run"
    assert "others 17,011 tasks stood in the queues or ran" in " ".join(printed.out.split())
    assert run(["bench", "-n", "5", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["others"] == 17_011


def test_somebody_who_looks_sees_two_bars(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, int, str]] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    watch_bars(monkeypatch, shown)
    assert run(["bench", "-n", "6", "--batch", "3"]) == 0
    assert [number for what, number, _ in shown if what == "created"] == [3, 6]
    assert [number for what, number, _ in shown if what == "ended"] == [3, 6]
    assert shown[-1][2].endswith("/s"), "the rate"


def test_a_type_that_nobody_knows_is_told_with_what_to_type(api: FakeApi, capsys: Printed) -> None:
    errors = [{"field": "type", "problem": "there is no task config for 'sample_noop'"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    assert run(["bench"]) == FAILURE
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota worker --app rota.sdk.samples"
    assert [sent.method for sent in api.sent] == ["GET", "POST", "GET", "GET"], "there is nothing to cancel"


@pytest.mark.parametrize(
    ("config", "told", "line"),
    [
        (
            {**CONFIG, "enabled": False},
            "sample_noop is paused: no new task of it is taken",
            "rota config-type resume sample_noop --url http://127.0.0.1:9000",
        ),
        (CONFIG, "type: is refused for another reason", "rota bench --help"),
    ],
)
def test_a_type_that_is_known_and_not_taken_is_told_with_the_reason(
    api: FakeApi, capsys: Printed, config: dict[str, Any], told: str, line: str
) -> None:
    errors = [{"field": "type", "problem": "is refused for another reason"}]
    api.on("POST /tasks", problem(422, "invalid_request", errors=errors))
    api.on("GET /task-configs/sample_noop", config)
    run(["bench", "--url", "http://127.0.0.1:9000"])
    assert capsys.readouterr().err.splitlines() == [f"error: {told}", f"try: {line}"]


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
    assert "a worker with the samples is needed, with the settings (--config) of that server" in first
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


def test_where_workers_are_only_busy_no_other_is_asked_for(
    bench: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.interfaces.cli.bench_run.PATIENCE", timedelta(0))
    keep_waiting(bench)
    bench.api.on("GET /tasks/1/explain", {**EXPLAINED, "reason": "queued", "sentence": "Others are before it."})
    assert run(["bench"]) == FAILURE
    *_, told, line = capsys.readouterr().err.splitlines()
    assert told == "error: sample_noop did not run within 0 s: Others are before it."
    assert line == "try: rota top"


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
    assert (
        "start your workers with --set worker.capacity=500, and measure again" in capsys.readouterr().out
    ) is is_limit


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


@pytest.mark.parametrize("words", [["-n", "0"], ["-n", "100001"], ["--batch", "1001"], ["--timeout", "soon"]])
def test_a_run_is_bounded(api: FakeApi, words: list[str]) -> None:
    assert run(["bench", *words]) == USAGE
    assert not api.sent


def test_a_spread_is_of_what_most_and_nearly_all_took() -> None:
    waits = [timedelta(milliseconds=number) for number in range(100, 0, -1)]
    assert Spread.of(waits) == Spread(p50=timedelta(milliseconds=51), p99=timedelta(milliseconds=100))
    assert Spread.of([]) == Spread(p50=timedelta(0), p99=timedelta(0))
