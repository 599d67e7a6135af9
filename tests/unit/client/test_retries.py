"""What is sent again, after which pause, and what is not."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import httpx2
import msgspec
import pytest

import rota
from rota.client import task_calls
from rota.client.place import Place
from rota.client.sync_wire import SyncSystem, SyncWire
from rota.domain.errors import ConflictError, InvalidError, RateLimitedError, RotaError, UnavailableError
from tests.unit.client.dial import Dial, FixedChance, JumpingSync, problem, task

AWAY = problem(503, "unavailable", detail="the store is away")


def test_a_read_is_tried_again_after_a_broken_connection(dial: Dial) -> None:
    found = dial.ask(lambda client: client.tasks.get("7"), httpx2.ReadError("reset"), httpx2.ConnectError("no"), task())
    assert found.id == "7"
    assert len(dial.sent) == 3
    assert dial.clock.pauses == [0.1, 0.2]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_read_is_tried_again_while_the_server_is_not_ready(dial: Dial, status: int) -> None:
    code = "rate_limited" if status == 429 else "unavailable"
    assert dial.ask(lambda client: client.tasks.get("7"), problem(status, code), task()).id == "7"


def test_the_server_says_how_long_to_wait(dial: Dial) -> None:
    limited = problem(429, "rate_limited", headers={"retry-after": "7"})
    dial.ask(lambda client: client.tasks.get("7"), limited, task())
    assert dial.clock.pauses == [7.1]


def test_a_server_that_asks_for_more_than_there_is_time_is_not_waited_for(dial: Dial) -> None:
    limited = problem(429, "rate_limited", detail="slowly", headers={"retry-after": "60"})
    with pytest.raises(RateLimitedError, match="slowly") as raised:
        dial.ask(lambda client: client.tasks.get("7"), limited)
    assert raised.value.retry_after.total_seconds() == 60
    assert dial.clock.pauses == []


def test_a_retry_after_that_is_a_date_or_nonsense_counts_as_none(dial: Dial) -> None:
    answers = [
        problem(503, "unavailable", headers={"retry-after": text})
        for text in ("Wed, 21 Oct 2037 07:28:00 GMT", "-5", "soon")
    ]
    dial.ask(lambda client: client.tasks.get("7"), *answers, task())
    assert dial.clock.pauses == [0.1, 0.2, 0.4]


def test_when_time_has_run_out_what_the_server_said_is_told(dial: Dial) -> None:
    silent = [httpx2.ReadTimeout("timed out")] * 50
    with pytest.raises(UnavailableError, match="the store is away"):
        dial.ask(lambda client: client.tasks.get("7"), AWAY, *silent, timeout="10s")


def test_all_tries_share_one_deadline(dial: Dial) -> None:
    with pytest.raises(UnavailableError, match="the store is away"):
        dial.ask(lambda client: client.tasks.get("7"), *[AWAY] * 50, timeout="10s")
    assert sum(dial.clock.pauses) < 10
    assert max(dial.clock.pauses) <= 5


def test_each_try_gets_what_is_left_of_the_time(dial: Dial) -> None:
    dial.ask(lambda client: client.tasks.get("7"), AWAY, task(), timeout="10s")
    reads = [request.extensions["timeout"]["read"] for request in dial.sent]
    assert reads == pytest.approx([10, 9.9])


def test_a_submit_is_sent_again_under_the_same_key(dial: Dial) -> None:
    handle = dial.ask(lambda client: client.submit("email", {"to": "ada"}), httpx2.ReadTimeout("late"), AWAY, task())
    assert handle.id == "7"
    bodies = [msgspec.json.decode(request.content) for request in dial.sent]
    keys = {body["idempotency_key"] for body in bodies}
    assert len(bodies) == 3
    assert len(keys) == 1
    assert keys.pop().startswith("auto-")


def test_a_key_that_was_given_is_kept(dial: Dial) -> None:
    dial.ask(lambda client: client.submit("email", idempotency_key="order-7"), task())
    assert msgspec.json.decode(dial.sent[0].content) == {"type": "email", "idempotency_key": "order-7"}


def test_an_empty_key_is_refused_before_anything_is_sent(dial: Dial) -> None:
    with pytest.raises(InvalidError, match="idempotency_key: must not be empty; leave it out"):
        dial.ask(lambda client: client.submit("email", idempotency_key=""))
    assert dial.sent == []


def test_a_rerun_is_sent_again_under_the_same_key(dial: Dial) -> None:
    assert dial.ask(lambda client: client.tasks.retry("6"), AWAY, task(rerun_of="6")).id == "7"
    assert len({request.headers["idempotency-key"] for request in dial.sent}) == 1


def test_another_write_is_sent_again_when_it_certainly_was_not_sent(dial: Dial) -> None:
    cancelled = task(status="CANCELLED")
    limited = problem(429, "rate_limited")
    found = dial.ask(lambda client: client.tasks.cancel("7"), httpx2.ConnectError("refused"), limited, cancelled)
    assert found.status == "CANCELLED"


@pytest.mark.parametrize("failure", [httpx2.ReadError("reset"), httpx2.ReadTimeout("late")])
def test_another_write_that_may_have_arrived_is_not_sent_again(dial: Dial, failure: Exception) -> None:
    with pytest.raises(UnavailableError, match="whether it took effect is unknown"):
        dial.ask(lambda client: client.tasks.cancel("7"), failure)
    with pytest.raises(UnavailableError, match="the store is away"):
        dial.ask(lambda client: client.tasks.cancel("7"), AWAY)
    assert len(dial.sent) == 2


@pytest.mark.parametrize(("status", "kind"), [(409, ConflictError), (500, RotaError)])
def test_what_the_server_decided_is_not_asked_again(dial: Dial, status: int, kind: type[RotaError]) -> None:
    with pytest.raises(kind):
        dial.ask(lambda client: client.tasks.get("7"), problem(status, "x"))
    assert len(dial.sent) == 1


class Trickle(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """An answer that comes in pieces and does not end."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._dial.clock.passed += 1
            yield b" "

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b" "
        await asyncio.Event().wait()


def test_an_answer_that_does_not_end_is_not_waited_for(dial: Dial) -> None:
    def trickle(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Trickle(dial))

    with pytest.raises(UnavailableError, match="whether it took effect is unknown"):
        dial.ask(lambda client: client.tasks.cancel("7"), trickle, timeout=1 if dial.is_async else 5)


def test_where_nobody_listens_patience_may_be_shorter() -> None:
    place = Place("http://127.0.0.1:1", "", connect_within=timedelta(0))
    with (
        rota.Client.at(place) as client,
        pytest.raises(UnavailableError, match=r"no answer from http://127\.0\.0\.1:1: "),
    ):
        client.stats()


async def test_the_same_where_it_is_awaited() -> None:
    place = Place("http://127.0.0.1:1", "", connect_within=timedelta(0))
    async with rota.AsyncClient.at(place) as client:
        with pytest.raises(UnavailableError, match=r"no answer from http://127\.0\.0\.1:1: "):
            await client.stats()


HUNG_UP = httpx2.RemoteProtocolError("Server disconnected without sending a response.")


def test_a_program_tries_again_where_a_server_hangs_up(dial: Dial) -> None:
    assert dial.ask(lambda client: client.tasks.get("7"), HUNG_UP, HUNG_UP, task()).id == "7"


def test_a_server_that_has_answered_may_hang_up_once() -> None:
    answers: list[httpx2.Response | Exception] = [task(), HUNG_UP, task()]

    def answer(_request: httpx2.Request) -> httpx2.Response:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    place = Place("http://127.0.0.1:1", "", connect_within=timedelta(0))
    wire = SyncWire(place, SyncSystem(JumpingSync(), FixedChance()), transport=httpx2.MockTransport(answer))
    assert wire.send(task_calls.get("7")).id == "7"
    assert wire.send(task_calls.get("7")).id == "7"
    wire.close()


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    for url, is_local in (("http://127.0.0.1:8420", True), ("http://[::1]", True), ("http://rota.example", False)):
        with rota.Client(url) as client:
            assert client._wire.place.is_local is is_local
            assert client._wire._http.trust_env is not is_local
