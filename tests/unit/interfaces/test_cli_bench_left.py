"""`rota bench`: what becomes of a run that ends before its time."""

import json
from datetime import timedelta

import httpx2
import pytest

from rota.interfaces.cli import bench as command
from rota.interfaces.cli.bench_run import LONE, Run
from rota.interfaces.cli.errors import FAILURE, UNAVAILABLE
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import FakeApi, page, task_like
from tests.unit.interfaces.fake_bench import Bench, count, interrupt, sent_to, stop_at, watch_bars

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def bench(api: FakeApi) -> Bench:
    return Bench(api)


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
    told, done = capsys.readouterr().err.split("\n")[:2]
    assert told == "cancelling what has not run yet; Ctrl-C leaves it as it is"
    assert done == "503 tasks that were left are cancelled"


def test_somebody_who_looks_sees_how_many_are_cancelled(
    bench: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, str]] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    watch_bars(monkeypatch, shown)
    sweeps = iter([500, 3, 0])
    bench.api.on("POST /tasks:cancel", lambda _: count(next(sweeps)))
    stop_at(bench, "POST /tasks:batch", answer=interrupt)
    assert run(["bench", "-n", "5"]) == FAILURE
    assert [number for what, number, _ in shown if what == "cancelled"] == [500, 503, 503]


def test_who_interrupts_again_is_told_how_many_stay_and_what_cancels_them(bench: Bench, capsys: Printed) -> None:
    bench.api.on("POST /tasks:cancel", interrupt)

    def leave_a_thousand(request: httpx2.Request) -> httpx2.Response:
        bench.api.on("GET /tasks", page(*[task_like(id=str(number)) for number in range(1000)]))
        return interrupt(request)

    bench.api.on("POST /tasks:batch", leave_a_thousand)
    assert run(["bench", "-n", "5", "--url", "http://127.0.0.1:9000"]) == FAILURE
    _, told, line = capsys.readouterr().err.splitlines()
    mark = sent_to(bench.api, "/tasks:cancel")[0]["metadata"]["bench"]
    assert told == "error: interrupted; of the run 1,000 tasks will still run"
    selection = f"--type sample_noop --metadata bench={mark}"
    assert line == f"try: rota task cancel {selection} --yes --url http://127.0.0.1:9000"
    counted = bench.api.sent[-1].url.params
    assert (counted["metadata.bench"], counted.get_list("status")) == (mark, ["PENDING", "PROCESSING", "RETRYING"])


def test_who_interrupts_again_when_all_has_run_is_told_of_nothing(bench: Bench, capsys: Printed) -> None:
    def leave_nothing(request: httpx2.Request) -> httpx2.Response:
        bench.api.on("GET /tasks", page())
        return interrupt(request)

    bench.api.on("POST /tasks:cancel", interrupt)
    bench.api.on("POST /tasks:batch", leave_nothing)
    assert run(["bench", "-n", "5"]) == FAILURE
    assert capsys.readouterr().err.split()[-1:] == ["interrupted"], "and nothing to try"


def test_who_interrupts_the_count_too_is_told_without_a_number(bench: Bench, capsys: Printed) -> None:
    bench.api.on("POST /tasks:cancel", interrupt)
    stop_at(bench, "GET /tasks", answer=interrupt)
    assert run(["bench", "-n", "5"]) == FAILURE
    assert "error: interrupted; what is left of the run stays" in capsys.readouterr().err


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
    _, first, last = capsys.readouterr().err.splitlines()
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
    _, first, last = printed.err.splitlines()
    rate = "4 had ended (1.3 tasks/s over 3.0 s, from the first create to the last result), 6 had not"
    assert first == f"error: gave up after 7m: 10 of 10 tasks were created; {rate}"
    assert last == "try: rota bench -n 2 --timeout 7m --batch 5 --url http://127.0.0.1:9000"
    assert not printed.out


def test_a_run_of_which_nothing_ended_has_no_rate(short: Bench, capsys: Printed) -> None:
    end_some(short, 0)
    assert run(TEN) == FAILURE
    _, first, last = capsys.readouterr().err.splitlines()
    assert first == "error: gave up after 7m: 10 of 10 tasks were created, and none had ended"
    assert last == "try: rota top"


def test_a_run_that_is_given_up_and_whose_record_is_away_claims_nothing(short: Bench, capsys: Printed) -> None:
    stop_at(short, "GET /tasks", answer=lambda _: problem(403, "permission_denied"))
    assert run(TEN) == FAILURE
    first = capsys.readouterr().err.splitlines()[1]
    assert first.endswith("10 of 10 tasks were created; the server does not say how many have ended")


def test_what_ends_while_the_rest_is_cancelled_came_too_late_for_the_rate(
    short: Bench, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its record a task of this server ends each second; here time is over before the fourth has."""
    monkeypatch.setattr(command, "parse_duration", lambda *_: timedelta(seconds=2.9))
    end_some(short, 10)
    assert run(TEN) == FAILURE
    assert "3 had ended (1.5 tasks/s over 2.0 s" in capsys.readouterr().err


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

    api.on("GET /queues", refuse)
    assert run(["bench", "--url", "http://127.0.0.1:9000"]) == UNAVAILABLE
    printed = capsys.readouterr().err
    assert "cancel" not in printed
    assert printed.splitlines()[-1] == "try: rota doctor --url http://127.0.0.1:9000", (
        "no other server is to be measured"
    )
    assert run(["bench"]) == UNAVAILABLE
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota dev"
