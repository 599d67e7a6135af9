"""Servers that misbehave in every way we could think of: each attempt ends as documented, in time, after one request,
and the worker does not grow. All are called at once; the table of what came out is printed after the tests."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from rota.domain.attempt import Deferred, Failed, Outcome, Succeeded, TimedOut
from rota.infrastructure.executors.http.executor import HttpExecutor
from rota.infrastructure.executors.http.settings import HttpSettings
from rota.infrastructure.executors.targets import TargetGuard
from rota.infrastructure.system import SystemClock
from tests.support.certificates import make_certificate
from tests.support.http_jobs import LOOPBACK, an_http_executor, an_http_job, run
from tests.support.patience import PATIENCE_S

TABLE = "table: what hostile HTTP servers came to"
Record = Callable[[str, object], None]
ROOT = Path(__file__).parents[2]
DEADLINE = timedelta(seconds=2)
IMPATIENT = {"tls_to_plain": 0.5, "dns_hangs": 0.5}  # seconds for the connection, which never comes
SLACK_S = 2.5  # with the deadline less than what connections are waited for
HOUR = timedelta(hours=1)
MIB = 1024 * 1024
MOST_GROWTH = 2 * MIB
OPEN = HttpSettings(allow=LOOPBACK, breaker_failures=10**6)

OK, LATE, DEFERRED = "succeeded", "timed out", "deferred"
LATER, FINAL = "try again", "final"

EXPECTED: dict[str, tuple[str, str]] = {
    "hang_before_headers": (LATE, ""),
    "hang_after_status": (LATE, ""),
    "hang_after_headers": (LATE, ""),
    "hang_in_chunk": (LATE, ""),
    "slow_headers": (LATE, ""),
    "slow_body": (LATE, ""),
    "slow_chunks": (LATE, ""),
    "endless_chunks": ("response_too_large", FINAL),
    "endless_body": ("response_too_large", FINAL),
    "ten_gigabytes": ("response_too_large", FINAL),
    "endless_chunk_extension": (LATE, ""),
    "endless_trailers": ("bad_response", LATER),
    "gzip_bomb": ("response_too_large", FINAL),
    "gzip_cut": ("bad_response", LATER),
    "gzip_garbage": ("bad_response", LATER),
    "gzip_fine": (OK, ""),
    "unasked_coding": ("bad_response", FINAL),
    "bad_status_line": ("bad_response", LATER),
    "not_http": ("bad_response", LATER),
    "http_0_9": ("bad_response", LATER),
    "http_3_0": ("bad_response", LATER),
    "redirect_to_metadata": ("redirected", FINAL),
    "redirect_to_itself": ("redirected", FINAL),
    "reset_before_headers": ("connection_failed", LATER),
    "reset_in_headers": ("connection_failed", LATER),
    "reset_in_body": ("bad_response", LATER),
    "close_before_headers": ("connection_failed", LATER),
    "close_in_headers": ("connection_failed", LATER),
    "close_in_chunk": ("bad_response", LATER),
    "megabyte_header": ("bad_response", LATER),
    "ten_thousand_headers": ("bad_response", LATER),
    "header_with_nul": ("bad_response", LATER),
    "header_without_colon": ("bad_response", LATER),
    "broken_json": ("bad_response", FINAL),
    "deep_json": ("bad_response", FINAL),
    "web_page": ("bad_response", FINAL),
    "picture": ("bad_response", FINAL),
    "other_charset": ("bad_response", FINAL),
    "not_utf8": ("bad_response", FINAL),
    "plain_text": (OK, ""),
    "busy_for_ever": ("http_429", LATER),
    "busy_negative": ("http_429", LATER),
    "busy_garbage": ("http_429", LATER),
    "busy_until_9999": ("http_503", LATER),
    "busy_until_1970": ("http_503", LATER),
    "busy_twice": ("http_429", LATER),
    "accepted": (DEFERRED, ""),
    "informing_for_ever": ("bad_response", LATER),
    "answering_for_ever": (OK, ""),
    "informing_once": (OK, ""),
    "switching": ("bad_response", FINAL),
    "bad_chunk_size": ("bad_response", LATER),
    "bad_chunk_end": ("bad_response", LATER),
    "length_too_long": ("bad_response", LATER),
    "length_too_short": (OK, ""),
    "length_negative": ("bad_response", LATER),
    "two_lengths": ("bad_response", LATER),
    "length_and_chunks": ("bad_response", LATER),
    "cookies": (OK, ""),
    "status_999": ("bad_response", FINAL),
    "not_found": ("http_404", FINAL),
    "gone": ("http_410", FINAL),
    "teapot_binary": ("http_418", FINAL),
    "failing_for_ever": ("http_500", LATER),
    "failing_slowly": ("http_503", LATER),
    "no_content": (OK, ""),
    "empty": (OK, ""),
    "mute": (LATE, ""),
    "reset": ("connection_failed", LATER),
    "refused": ("connection_failed", LATER),
    "tls_untrusted": ("tls_failed", LATER),
    "tls_to_plain": ("connect_timeout", LATER),
    "plain_to_tls": ("connection_failed", LATER),
    "dns_unknown": ("dns_failed", LATER),
    "dns_hangs": ("connect_timeout", LATER),
}
GREEDY = (
    *("endless_chunks", "endless_body", "ten_gigabytes", "gzip_bomb", "megabyte_header", "ten_thousand_headers"),
    *("endless_chunk_extension", "endless_trailers", "deep_json", "failing_for_ever", "informing_for_ever"),
    "answering_for_ever",
)

CALM = [name for name in EXPECTED if name not in GREEDY]


@dataclass(frozen=True)
class Ending:
    outcome: Outcome
    seconds: float
    requests: int

    @property
    def kind(self) -> tuple[str, str]:
        match self.outcome:
            case Failed(error):
                return error.code, LATER if error.retryable else FINAL
            case TimedOut():
                return LATE, ""
            case Deferred():
                return DEFERRED, ""
            case _:
                return OK if isinstance(self.outcome, Succeeded) else "?", ""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    cert, key = make_certificate(tmp_path_factory.mktemp("tls"))
    command = [sys.executable, "-m", "tests.support.hostile", str(cert), str(key)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as server:  # noqa: S603 ours
        assert server.stdout is not None
        assert server.stdin is not None
        yield json.loads(server.stdout.readline())
        server.stdin.close()


def url_of(name: str, ports: dict[str, int]) -> str:
    special = {
        "mute": f"http://127.0.0.1:{ports['mute']}/",
        "reset": f"http://127.0.0.1:{ports['reset']}/",
        "refused": "http://127.0.0.1:1/",
        "tls_untrusted": f"https://localhost:{ports['tls']}/fine",
        "tls_to_plain": f"https://localhost:{ports['main']}/fine",
        "plain_to_tls": f"http://127.0.0.1:{ports['tls']}/fine",
        "dns_unknown": f"http://unknown.example.com:{ports['main']}/fine",
        "dns_hangs": f"http://hanging.example.com:{ports['main']}/fine",
    }
    return special.get(name, f"http://127.0.0.1:{ports['main']}/{name}")


async def look_up(host: str, port: int) -> list[str]:
    if host.startswith("hanging"):
        await asyncio.get_running_loop().create_future()
    if host.startswith("unknown"):
        raise OSError("no such host")
    return ["127.0.0.1"]


@asynccontextmanager
async def an_executor() -> AsyncIterator[HttpExecutor]:
    async with an_http_executor(OPEN, guard=TargetGuard(LOOPBACK, lookup=look_up)) as executor:
        yield executor


async def attempt(executor: HttpExecutor, url: str, *, connect_s: float = 5.0) -> tuple[Outcome, float]:
    began_at = SystemClock().monotonic()
    outcome = await run(executor, an_http_job(url, within=DEADLINE, connect_timeout_seconds=connect_s))
    return outcome, SystemClock().monotonic() - began_at


async def count_requests(ports: dict[str, int]) -> dict[str, int]:
    async with an_executor() as executor:
        outcome = await run(executor, an_http_job(f"http://127.0.0.1:{ports['main']}/counts", method="GET"))
    assert isinstance(outcome, Succeeded)
    counts: dict[str, int] = json.loads(outcome.result.data or "{}")
    return counts


@pytest.fixture(scope="module")
def endings(ports: dict[str, int]) -> dict[str, Ending]:
    """Every server called once, those that do not flood us at the same time."""

    async def call_all() -> dict[str, Ending]:
        found: dict[str, tuple[Outcome, float]] = {}
        async with an_executor() as executor, asyncio.timeout(PATIENCE_S):
            await run(executor, an_http_job(url_of("fine", ports)))  # imports the client library
            calls = [attempt(executor, url_of(name, ports), connect_s=IMPATIENT.get(name, 5.0)) for name in CALM]
            endings = await asyncio.gather(*calls)
            found |= dict(zip(CALM, endings, strict=True))
        for name in GREEDY:  # one by one: who floods us takes the others' time
            async with an_executor() as executor:  # with no connection that the one before may be about to close
                found[name] = await attempt(executor, url_of(name, ports))
        counts = await count_requests(ports)
        return {name: Ending(outcome, spent, counts.get(name, 1)) for name, (outcome, spent) in found.items()}

    return asyncio.run(call_all())


@pytest.mark.parametrize("name", EXPECTED)
def test_an_attempt_ends_as_documented_in_time_after_one_request(
    endings: dict[str, Ending], name: str, record_property: Record
) -> None:
    ending = endings[name]
    record_property(TABLE, f"{name:26} {ending.kind[0]:20} {ending.kind[1]:10} {ending.seconds:6.2f} s")
    assert ending.kind == EXPECTED[name], ending.outcome
    assert ending.seconds < DEADLINE.total_seconds() + SLACK_S
    assert ending.requests == 1


def test_a_name_without_an_address_is_told(endings: dict[str, Ending]) -> None:
    outcome = endings["dns_unknown"].outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "the host unknown.example.com has no address"


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("busy_for_ever", HOUR),
        ("busy_until_9999", HOUR),
        ("busy_twice", timedelta(seconds=120)),
    ],
)
def test_the_pause_that_a_server_asks_for_is_kept_within_reason(
    endings: dict[str, Ending], name: str, wait: timedelta
) -> None:
    outcome = endings[name].outcome
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == wait


@pytest.mark.parametrize("name", ["busy_negative", "busy_garbage", "busy_until_1970"])
def test_a_pause_that_makes_no_sense_leaves_the_policys(endings: dict[str, Ending], name: str) -> None:
    outcome = endings[name].outcome
    assert isinstance(outcome, Failed)
    assert outcome.retry_after is None or outcome.retry_after <= timedelta(seconds=10)


def growth_by(name: str, ports: dict[str, int], *, max_response: int = OPEN.max_response) -> int:
    """In a process of its own, which no flood has made large before."""
    command = [sys.executable, "-m", "tests.support.greedy", str(max_response), url_of(name, ports)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)  # noqa: S603 ours
    return int(ran.stdout)


def until_within(most: int, growths: Iterator[int]) -> Iterator[int]:
    """They, up to the first that is within the bound."""
    for growth in growths:
        yield growth
        if growth <= most:
            return


@pytest.mark.parametrize("name", GREEDY)
def test_a_greedy_server_does_not_make_the_worker_grow(
    ports: dict[str, int], name: str, record_property: Record
) -> None:
    # What the allocator keeps varies from run to run by some hundred KiB: one of three within the bound shows it.
    growth = min(until_within(MOST_GROWTH, (growth_by(name, ports) for _ in range(3))))
    record_property(TABLE, f"{name:26} the worker grew by {growth / MIB:.2f} MiB")
    assert growth <= MOST_GROWTH


def test_without_its_cap_the_worker_would_grow(ports: dict[str, int]) -> None:
    """The measurement can fail: what a greedy server sends shows where it is kept."""
    assert growth_by("endless_body", ports, max_response=16 * MIB) > MOST_GROWTH


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
async def test_a_request_on_a_connection_that_breaks_is_not_sent_again(ports: dict[str, int], method: str) -> None:
    url = url_of("close_on_reuse", ports)
    async with an_executor() as executor:
        first = await run(executor, an_http_job(url, method=method))
        before = await count_requests(ports)
        second = await run(executor, an_http_job(url, method=method))
    after = await count_requests(ports)

    assert isinstance(first, Succeeded)
    assert isinstance(second, Failed)
    assert second.error.code == "connection_failed"
    assert second.error.retryable
    assert after["close_on_reuse"] == before["close_on_reuse"] + 1


@pytest.mark.parametrize("name", ["fine_and_more", "fine_and_more_in_the_end"])
async def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next_one(ports: dict[str, int], name: str) -> None:
    async with an_executor() as executor:
        first = await run(executor, an_http_job(url_of(name, ports)))
        assert isinstance(first, Succeeded)
        outcome = await run(executor, an_http_job(url_of("not_found", ports)))

    assert isinstance(outcome, Failed)
    assert outcome.error.code == "http_404"


async def test_a_cancelled_attempt_ends_at_once(ports: dict[str, int]) -> None:
    async with an_executor() as executor:
        runner = asyncio.create_task(run(executor, an_http_job(url_of("slow_body", ports))))
        before = (await count_requests(ports)).get("slow_body", 0)
        while (await count_requests(ports)).get("slow_body", 0) == before and not before:
            pass
        began_at = SystemClock().monotonic()
        runner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await runner
        assert SystemClock().monotonic() - began_at < SLACK_S
