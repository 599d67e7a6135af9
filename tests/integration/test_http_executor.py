"""The HTTP executor against a service that behaves: what it sends, to whom, how often, and when it sends nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

import rota
from rota.domain.attempt import Deferred, Failed, Snoozed, Succeeded, TimedOut
from rota.domain.ids import TenantId
from rota.domain.retry import RetryPolicy
from rota.infrastructure.executors.http import executor as executor_module
from rota.infrastructure.executors.http.circuit import Circuit, Slots
from rota.infrastructure.executors.http.settings import HttpSettings, SecretSettings
from rota.infrastructure.executors.targets import TargetGuard
from rota.receive import ReceivedTask, Receiver
from rota.testing.values import replace
from tests.support.clock import FakeClock
from tests.support.http_jobs import CALLBACK, LOOPBACK, an_http_executor, an_http_job, run
from tests.support.http_service import Service, a_service, code_of, settings_with
from tests.support.patience import PATIENCE_S

SECRET, OTHER = "whsec_" + "A" * 43 + "=", "whsec_" + "B" * 43 + "="
PAUSE = timedelta(seconds=10)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with a_service() as started:
        yield started


async def test_a_task_is_posted_as_json_and_its_answer_is_the_result(service: Service) -> None:
    job = an_http_job(service.url, task={"payload": '{"to":"ada"}', "metadata": {"shop": "7"}})
    async with an_http_executor() as executor:
        outcome = await run(executor, job)

    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.result.data or "") == {"sent": True}
    (seen,) = service.seen
    assert seen.method == "POST"
    assert seen.json == {
        "task_id": "1",
        "attempt": 1,
        "type": "email",
        "payload": {"to": "ada"},
        "metadata": {"shop": "7"},
        "deadline": job.task.state.due_at.isoformat().replace("+00:00", "Z"),
        "callback_url": CALLBACK,
    }
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["idempotency-key"] == "1"
    assert seen.headers["rota-attempt"] == "1"
    assert seen.headers["rota-callback"] == CALLBACK
    assert seen.headers["user-agent"].startswith("rota/")
    assert "webhook-signature" not in seen.headers


async def test_without_a_callback_none_is_sent(service: Service) -> None:
    async with an_http_executor() as executor:
        await run(executor, replace(an_http_job(service.url), link=lambda _: ""))

    (seen,) = service.seen
    assert "callback_url" not in seen.json
    assert "rota-callback" not in seen.headers


async def test_the_trace_goes_on_where_the_task_came_from(service: Service) -> None:
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    async with an_http_executor() as executor:
        await run(executor, an_http_job(service.url, task={"metadata": {"traceparent": given}}))
        await run(executor, an_http_job(service.url))
        await run(executor, an_http_job(service.url))

    first, second, third = (seen.headers["traceparent"] for seen in service.seen)
    assert first[:36] == given[:36]
    assert first != given
    assert second == third
    assert second.endswith("-01")


async def test_templates_take_values_of_the_task(service: Service) -> None:
    job = an_http_job(
        f"{service.url}?fixed=1",
        method="PUT",
        task={"payload": '{"order":{"id":7,"lines":["a","b"]},"note":null}'},
        query={"id": "{payload.order.id}", "none": "{payload.note}", "text": "no {payload.order.id}"},
        headers={"X-Order": "{payload.order.id}"},
        body={"lines": "{payload.order.lines}", "second": "{payload.order.lines.1}", "braces": "{{x}}", "n": 5},
    )
    async with an_http_executor() as executor:
        await run(executor, job)

    (seen,) = service.seen
    assert (seen.method, seen.path) == ("PUT", "/hook?fixed=1&id=7&text=no+7")
    assert seen.json == {"lines": ["a", "b"], "second": "b", "braces": "{x}", "n": 5}
    assert seen.headers["x-order"] == "7"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_methods_without_a_body_send_none(service: Service, method: str) -> None:
    async with an_http_executor() as executor:
        await run(executor, an_http_job(service.url, method=method))

    assert (service.seen[0].method, service.seen[0].body) == (method, b"")


@pytest.mark.parametrize(
    "executor_config",
    [
        {"body": {"a": "{payload.missing}"}},
        {"query": {"a": "{payload.list.9}"}},
        {"headers": {"X-A": "{payload.lines}"}},
    ],
)
async def test_a_value_that_the_task_lacks_sends_nothing(service: Service, executor_config: dict[str, Any]) -> None:
    job = an_http_job(service.url, task={"payload": '{"list":[1],"lines":"a\\r\\nHost: evil"}'}, **executor_config)
    async with an_http_executor() as executor:
        outcome = await run(executor, job)

    assert code_of(outcome) == ("missing_value", False)
    assert not service.seen


async def test_a_private_target_gets_nothing_unless_it_is_allowed(service: Service) -> None:
    async with an_http_executor(guard=TargetGuard()) as executor:
        by_name = await run(executor, an_http_job(service.url))
        by_address = await run(executor, an_http_job(service.url.replace("localhost", "127.0.0.1")))
        by_number = await run(executor, an_http_job(service.url.replace("localhost", "2130706433")))

    assert {code_of(outcome) for outcome in (by_name, by_address, by_number)} == {("target_refused", False)}
    assert not service.seen


@pytest.mark.parametrize(
    "host",
    ["2130706433", "127.1", "0177.0.0.1", "017700000001", "127.0.1", "0", "00.0.0.0", "127.000.000.001"],
)
async def test_a_number_gets_nothing_though_the_client_takes_it_for_an_address(
    service: Service, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiohttp.connector.is_canonical_ipv4_address", lambda _host: True)  # older ones do not look
    async with an_http_executor(guard=TargetGuard()) as executor:
        outcome = await run(executor, an_http_job(service.url.replace("localhost", host)))

    assert code_of(outcome) == ("target_refused", False)
    assert not service.seen


async def test_servers_of_our_own_get_nothing_though_their_network_is_allowed(service: Service) -> None:
    port = int(service.url.split(":")[2].split("/")[0])
    async with an_http_executor(settings_with(closed=[("localhost", port)])) as executor:
        by_address = await run(executor, an_http_job(service.url.replace("localhost", "127.0.0.1")))
        by_name = await run(executor, an_http_job(service.url))

    assert {code_of(by_address), code_of(by_name)} == {("target_refused", False)}
    assert not service.seen


async def test_a_name_is_resolved_once_for_each_connection_and_the_connection_is_used_again(service: Service) -> None:
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with an_http_executor(guard=TargetGuard(LOOPBACK, lookup=look_up)) as executor:
        for _ in range(5):
            await run(executor, an_http_job(service.url.replace("localhost", "crm.example.com")))

    assert asked == ["crm.example.com"]
    assert len({seen.peer for seen in service.seen}) == 1


async def test_at_the_deadline_the_request_ends_and_the_service_sees_it(service: Service) -> None:
    ended = asyncio.Event()

    async def hang() -> web.StreamResponse:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        raise AssertionError

    service.answer = hang
    async with an_http_executor() as executor:
        outcome = await run(executor, an_http_job(service.url, within=timedelta(seconds=1.5)))

    assert outcome == TimedOut()
    async with asyncio.timeout(PATIENCE_S):
        await ended.wait()


async def test_no_more_requests_than_allowed_are_made_at_once(service: Service) -> None:
    running, most, go_on = 0, 0, asyncio.Event()

    async def slow() -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            go_on.set()
        await go_on.wait()
        running -= 1
        return web.json_response({})

    service.answer = slow
    async with an_http_executor() as executor:
        jobs = [an_http_job(service.url, concurrency=2) for _ in range(8)]
        outcomes = await asyncio.gather(*(run(executor, job) for job in jobs))

    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
    assert most == 2


async def test_who_gives_up_waiting_for_its_turn_leaves_it_to_the_next(service: Service) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> web.StreamResponse:
        began.set()
        await go_on.wait()
        return web.json_response({})

    service.answer = slow
    async with an_http_executor() as executor, asyncio.timeout(PATIENCE_S):
        first = asyncio.create_task(run(executor, an_http_job(service.url, concurrency=1)))
        await began.wait()
        impatient = await run(executor, an_http_job(service.url, concurrency=1, within=timedelta(seconds=0.1)))
        last = asyncio.create_task(run(executor, an_http_job(service.url, concurrency=1)))
        go_on.set()
        await asyncio.gather(first, last)

    assert impatient == TimedOut()
    assert len(service.seen) == 2


async def test_who_has_no_room_does_not_hold_up_who_has() -> None:
    slots = Slots()
    async with asyncio.timeout(PATIENCE_S):
        await slots.take(2)
        await slots.take(2)
        narrow, wide = asyncio.create_task(slots.take(1)), asyncio.create_task(slots.take(2))
        await asyncio.wait((narrow, wide), timeout=0)
        await slots.take(3)  # has room, though others wait
        slots.free()
        slots.free()
        await wide
        assert not narrow.done()
        slots.free()
        slots.free()
        await narrow
    assert slots.in_use == 1


async def test_after_failures_in_a_row_no_request_is_made_until_a_probe_succeeds(service: Service) -> None:
    clock = FakeClock()
    settings = settings_with(breaker_failures=3, breaker_pause=PAUSE)

    async def away() -> web.StreamResponse:
        return web.Response(status=503)

    async with an_http_executor(settings) as executor:
        executor._clock = clock
        job = replace(an_http_job(service.url), deadline=clock.monotonic() + 1000)
        service.answer = away
        for _ in range(3):
            assert code_of(await run(executor, job)) == ("http_503", True)
        refused = await run(executor, job)
        assert code_of(refused) == ("circuit_open", True)
        assert isinstance(refused, Failed)
        assert refused.retry_after is not None
        assert refused.retry_after >= PAUSE
        assert len(service.seen) == 3

        clock.advance(PAUSE)
        assert code_of(await run(executor, job)) == ("http_503", True)  # the probe
        assert code_of(await run(executor, job)) == ("circuit_open", True)

        clock.advance(PAUSE)
        service.answer = None
        assert isinstance(await run(executor, job), Succeeded)
        assert isinstance(await run(executor, job), Succeeded)


@pytest.mark.parametrize("is_abandoned", [True, False])
def test_a_request_of_before_the_opening_ends_no_probe(is_abandoned: bool) -> None:
    clock = FakeClock()
    circuit = Circuit(clock, failures=1, pause=PAUSE)
    early, last = circuit.admit(), circuit.admit()
    assert early is not None
    assert last is not None
    last.note(is_answered=False)
    clock.advance(PAUSE)
    probe = circuit.admit()
    assert probe is not None

    early.abandon() if is_abandoned else early.note(is_answered=False)

    assert circuit.admit() is None
    probe.abandon()
    assert circuit.admit() is not None


async def test_what_one_tenant_runs_into_cuts_off_no_other(service: Service) -> None:
    async def away() -> web.StreamResponse:
        return web.Response(status=503)

    service.answer = away
    async with an_http_executor(settings_with(breaker_failures=2)) as executor:
        for _ in range(2):
            await run(executor, an_http_job(service.url))
        ours = await run(executor, an_http_job(service.url))
        theirs = await run(executor, an_http_job(service.url, task={"tenant_id": TenantId("other")}))

    assert code_of(ours) == ("circuit_open", True)
    assert code_of(theirs) == ("http_503", True)


@pytest.mark.parametrize("error", [rota.Retry(after="90m"), rota.Snooze("90m")])
async def test_what_a_receiver_asks_for_cuts_nobody_off(service: Service, error: Exception) -> None:
    def refuse(task: ReceivedTask) -> None:
        raise error

    async def busy() -> web.StreamResponse:
        seen = service.seen[-1]
        reply = Receiver(SECRET).handle(refuse, headers=seen.headers, body=seen.body)
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)

    service.answer = busy
    secret = SecretSettings(keys=(SECRET,), hosts=("localhost",))
    async with an_http_executor(settings_with(breaker_failures=1, secrets={"default": secret})) as executor:
        outcomes = [await run(executor, an_http_job(service.url)) for _ in range(3)]

    assert len(service.seen) == 3
    if isinstance(error, rota.Snooze):
        assert outcomes == [Snoozed(timedelta(minutes=90))] * 3
    else:
        assert {code_of(outcome) for outcome in outcomes} == {("http_429", True)}


async def test_a_service_that_answers_errors_of_its_own_is_not_cut_off(service: Service) -> None:
    async def broken() -> web.StreamResponse:
        return web.Response(status=500)

    service.answer = broken
    async with an_http_executor(settings_with(breaker_failures=2)) as executor:
        codes = [code_of(await run(executor, an_http_job(service.url))) for _ in range(4)]

    assert codes == [("http_500", True)] * 4


async def test_a_service_that_answers_too_much_is_not_cut_off(service: Service) -> None:
    async def talkative() -> web.StreamResponse:
        return web.json_response("x" * 2000)

    service.answer = talkative
    async with an_http_executor(settings_with(breaker_failures=2, max_response=1000)) as executor:
        codes = [code_of(await run(executor, an_http_job(service.url))) for _ in range(3)]

    assert codes == [("response_too_large", False)] * 3


async def test_the_pause_of_the_policy_counts_if_it_is_longer(service: Service) -> None:
    async def busy() -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "5"})

    service.answer = busy
    policy = RetryPolicy(delay=timedelta(minutes=2), jitter=0.0)
    async with an_http_executor() as executor:
        patient = await run(executor, an_http_job(service.url, task={"retry": policy}))
        prompt = await run(executor, an_http_job(service.url, task={"retry": replace(policy, delay=timedelta(0))}))

    assert isinstance(patient, Failed)
    assert isinstance(prompt, Failed)
    assert patient.retry_after == timedelta(minutes=2)
    assert prompt.retry_after == timedelta(seconds=5)


async def test_a_link_to_this_machine_is_given_to_nobody_elsewhere(service: Service) -> None:
    async def accept() -> web.StreamResponse:
        return web.Response(status=202)

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    service.answer = accept
    async with an_http_executor(guard=TargetGuard(LOOPBACK, lookup=look_up)) as executor:
        for link in ("http://127.0.0.1:8420/x", "http://localhost:8420/x", "http://[::1]:8420/x"):
            here = replace(an_http_job(service.url), link=lambda _, link=link: link)
            elsewhere = replace(
                an_http_job(service.url.replace("localhost", "crm.example.com")), link=lambda _, link=link: link
            )
            assert await run(executor, here) == Deferred()
            assert code_of(await run(executor, elsewhere)) == ("callbacks_off", False)

    assert ["rota-callback" in seen.headers for seen in service.seen] == [True, False] * 3
    assert ["callback_url" in seen.json for seen in service.seen] == [True, False] * 3


async def test_accepted_work_is_finished_by_a_callback(service: Service) -> None:
    async def accept() -> web.StreamResponse:
        return web.Response(status=202)

    service.answer = accept
    async with an_http_executor() as executor:
        assert await run(executor, an_http_job(service.url)) == Deferred()


async def test_no_answer_within_its_own_time_is_tried_again(service: Service) -> None:
    async def hang() -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    service.answer = hang
    async with an_http_executor() as executor:
        outcome = await run(executor, an_http_job(service.url, response_timeout_seconds=0.2))

    assert code_of(outcome) == ("response_timeout", True)


async def test_a_config_that_was_stored_unchecked_fails_its_tasks(service: Service) -> None:
    async with an_http_executor() as executor:
        outcome = await run(executor, an_http_job(service.url, colour="red"))

    assert code_of(outcome) == ("bad_config", False)


async def test_an_executor_that_was_never_used_closes() -> None:
    async with an_http_executor() as executor:
        assert executor.supports(an_http_job("https://example.com/").config)


async def test_only_so_many_configs_are_kept_prepared(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "MOST_PREPARED", 2)
    async with an_http_executor() as executor:
        for number in [*range(5), 0]:
            job = an_http_job(service.url, headers={"X-Number": str(number)})
            assert isinstance(await run(executor, job), Succeeded)
            assert len(executor._prepared) <= 2
    assert [seen.headers["x-number"] for seen in service.seen] == ["0", "1", "2", "3", "4", "0"]


async def test_a_config_that_could_not_be_prepared_is_looked_at_anew(service: Service) -> None:
    secrets: dict[str, SecretSettings] = {}
    async with an_http_executor(HttpSettings(secrets=secrets)) as executor:
        job = an_http_job(service.url, secret="shop")
        assert code_of(await run(executor, job)) == ("bad_config", False)
        secrets["shop"] = SecretSettings(keys=(SECRET,), hosts=("localhost", "127.0.0.1"))
        assert isinstance(await run(executor, job), Succeeded)
        assert SECRET not in repr(executor._prepared)
