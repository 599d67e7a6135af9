"""The gRPC executor against real servers: one call for each attempt, and every answer becomes the right outcome."""

import asyncio
import json
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from rota._proto.executor.v1 import executor_pb2 as pb
from rota.application.ports.executor import LogLevel
from rota.domain.attempt import Failed, Snoozed, Succeeded, TaskError, TaskResult, TimedOut
from rota.infrastructure.executors.grpc.call import GrpcCall
from rota.infrastructure.executors.grpc.channels import Channels
from rota.infrastructure.executors.grpc.lazy import LazyGrpcExecutor
from rota.infrastructure.executors.grpc.settings import GrpcSettings, TlsTarget
from rota.infrastructure.executors.targets import AllowEntry, TargetGuard
from rota.testing.values import replace
from tests.support.grpc_jobs import (
    EXECUTE,
    LOOPBACK,
    STREAM,
    Context,
    Service,
    a_certificate,
    a_grpc_executor,
    a_grpc_job,
    a_grpc_server,
    a_shop,
    abort_with,
    hang,
    server_credentials,
    succeed_with,
)
from tests.support.local_jobs import Recorder, code_of, data_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
FINAL = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "DATA_LOSS",
}


async def test_the_service_gets_the_whole_attempt_and_its_answer_is_the_result() -> None:
    asked: list[pb.ExecuteRequest] = []

    async def answer(raw: bytes, context: Context) -> bytes:
        asked.append(pb.ExecuteRequest.FromString(raw))
        assert 0 < (context.time_remaining() or 0) <= 31
        return pb.ExecuteResponse(
            success=pb.Success(result_json='{"ok": 1}', message="fine", code=7)
        ).SerializeToString()

    service = Service({EXECUTE: answer})
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        job = a_grpc_job(address, {"n": 2**60}, metadata={"traceparent": TRACE, "team": "a"})
        outcome = await executor.execute(job, Recorder())
    assert outcome == Succeeded(TaskResult(7, "fine", '{"ok": 1}'))
    request = asked[0]
    assert (request.task_id, request.attempt, request.type, request.tenant) == ("1", 1, "call", "default")
    assert json.loads(request.payload_json) == {"n": 2**60}
    assert dict(request.metadata) == {"traceparent": TRACE, "team": "a"}
    assert request.idempotency_key == "1"
    assert request.deadline.seconds > 0
    sent = service.metadata[0]
    assert {key: sent[key] for key in ("rota-task-id", "rota-attempt", "idempotency-key", "traceparent")} == {
        "rota-task-id": "1",
        "rota-attempt": "1",
        "idempotency-key": "1",
        "traceparent": TRACE,
    }


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (pb.ExecuteResponse(success=pb.Success()), Succeeded()),
        (
            pb.ExecuteResponse(failure=pb.Failure(code="card", message="no", detail="d")),
            Failed(TaskError("card", "no", "d", retryable=False)),
        ),
        (
            pb.ExecuteResponse(failure=pb.Failure(retryable=True, retry_after=duration_pb2.Duration(seconds=9))),
            Failed(TaskError("failed"), retry_after=timedelta(seconds=9)),
        ),
        (
            pb.ExecuteResponse(
                failure=pb.Failure(retryable=True, retry_after=duration_pb2.Duration(seconds=315_576_000_000))
            ),
            Failed(TaskError("failed"), retry_after=timedelta(hours=1)),
        ),
        (
            pb.ExecuteResponse(snooze=pb.Snooze(delay=duration_pb2.Duration(seconds=5, nanos=500_000_000))),
            Snoozed(timedelta(seconds=5.5)),
        ),
    ],
)
async def test_each_answer_is_an_outcome(response: pb.ExecuteResponse, outcome: object) -> None:
    async def answer(raw: bytes, context: Context) -> bytes:
        return response.SerializeToString()

    async with a_grpc_server(Service({EXECUTE: answer})) as address, a_grpc_executor() as executor:
        assert await executor.execute(a_grpc_job(address), Recorder()) == outcome


async def test_an_answer_without_an_outcome_is_final() -> None:
    async def answer(raw: bytes, context: Context) -> bytes:
        return b""

    async with a_grpc_server(Service({EXECUTE: answer})) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_response", False)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
async def test_each_status_is_retryable_or_final_and_is_called_once(code: grpc.StatusCode) -> None:
    service = Service({EXECUTE: abort_with(code, "because")})
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert isinstance(outcome, Failed)
    assert outcome.error == TaskError(f"grpc_{code.name.lower()}", "because", retryable=code.name not in FINAL)
    assert len(service.calls) == 1


def details_with(*messages: Any) -> Iterable[tuple[str, bytes]]:
    status = status_pb2.Status(code=14, message="busy")
    for message in messages:
        detail = any_pb2.Any()
        detail.Pack(message)
        status.details.append(detail)
    return [("grpc-status-details-bin", status.SerializeToString())]


@pytest.mark.parametrize(("asked", "nanos", "given"), [(7, 0, 7), (0, 250_000_000, 0.25), (10**9, 0, 3600), (-5, 0, 0)])
async def test_a_service_says_when_to_try_again(asked: int, nanos: int, given: float) -> None:
    info = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=asked, nanos=nanos))
    trailers = details_with(error_details_pb2.ErrorInfo(reason="x"), info)
    service = Service({EXECUTE: abort_with(grpc.StatusCode.UNAVAILABLE, "busy", trailers=list(trailers))})
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == timedelta(seconds=given)


async def test_details_that_cannot_be_read_ask_for_nothing() -> None:
    service = Service(
        {EXECUTE: abort_with(grpc.StatusCode.UNAVAILABLE, "x", trailers=[("grpc-status-details-bin", b"\xff")])}
    )
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert outcome == Failed(TaskError("grpc_unavailable", "x"), retry_after=None)


async def test_progress_and_lines_of_a_stream_are_passed_on() -> None:
    async def answer(raw: bytes, context: Context) -> None:
        for event in (
            pb.ExecuteEvent(progress=pb.Progress(fraction=0.5, message="half")),
            pb.ExecuteEvent(progress=pb.Progress(fraction=9)),
            pb.ExecuteEvent(log=pb.LogLine(level="warning", message="hot", fields_json='{"t": 90}')),
            pb.ExecuteEvent(log=pb.LogLine(level="shout", message="hey")),
            pb.ExecuteEvent(),
            pb.ExecuteEvent(response=pb.ExecuteResponse(success=pb.Success(result_json="[1]"))),
        ):
            await context.write(event.SerializeToString())

    recorder = Recorder()
    async with a_grpc_server(Service({STREAM: answer})) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address, streaming=True), recorder)
    assert data_of(outcome) == "[1]"
    assert recorder.steps == [(0.5, "half"), (1.0, "")]
    assert recorder.lines == [("hot", LogLevel.WARNING, '{"t": 90}'), ("hey", LogLevel.INFO, "")]


async def test_to_cancel_the_attempt_cancels_the_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def answer(raw: bytes, context: Context) -> bytes:
        context.add_done_callback(lambda _: ended.set())  # type: ignore[arg-type] # any function will do
        begun.set()
        return await hang(raw, context)

    async with a_grpc_server(Service({EXECUTE: answer})) as address, a_grpc_executor() as executor:
        running = asyncio.create_task(executor.execute(a_grpc_job(address), Recorder()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await ended.wait()


async def test_a_deadline_that_is_over_is_a_timeout_without_a_call() -> None:
    service = Service({EXECUTE: succeed_with()})
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        assert isinstance(await executor.execute(a_grpc_job(address, left=-1), Recorder()), TimedOut)
    assert service.calls == []


async def test_all_calls_to_one_place_share_a_channel_and_places_are_bounded() -> None:
    service = Service({EXECUTE: succeed_with()})
    async with (
        a_grpc_server(service) as one,
        a_grpc_server(service) as two,
        a_grpc_server(service) as three,
        a_grpc_executor(max_channels=2) as executor,
    ):
        links = executor._channels._links
        await asyncio.gather(*(executor.execute(a_grpc_job(one), Recorder()) for _ in range(20)))
        assert len(links) == 1
        for address in (one, two, three, one):
            assert isinstance(await executor.execute(a_grpc_job(address), Recorder()), Succeeded)
            assert len(links) <= 2


async def test_a_place_has_one_channel_in_whatever_order_its_addresses_come() -> None:
    orders = permutations(["127.0.0.1", "127.0.0.2", "127.0.0.3"])

    async def lookup(host: str, port: int) -> list[str]:
        return list(next(orders))

    guard = TargetGuard([LOOPBACK], lookup=lookup)
    async with a_grpc_server(Service({EXECUTE: succeed_with()})) as address, a_grpc_executor(guard=guard) as executor:
        place = f"images.example:{address.rpartition(':')[2]}"
        links = set()
        for _ in range(6):
            assert isinstance(await executor.execute(a_grpc_job(place), Recorder()), Succeeded)
            links |= {id(link) for link in executor._channels._links.values()}
    assert len(links) == 1


async def test_a_channel_is_replaced_when_its_addresses_are_the_names_no_more() -> None:
    channels = Channels(GrpcSettings())
    call = GrpcCall(host="images.example", port=1)
    first, second = ip_address("127.0.0.1"), ip_address("127.0.0.2")
    async with channels.borrow(call, [first]) as old:
        async with channels.borrow(call, [second, first]) as same:
            assert same is old
        async with channels.borrow(call, [second]) as new:
            assert new is not old
        assert old.channel.get_state() is not grpc.ChannelConnectivity.SHUTDOWN
    assert old.channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    assert new.channel.get_state() is not grpc.ChannelConnectivity.SHUTDOWN
    await channels.close()
    assert new.channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN


async def test_a_service_that_is_away_may_be_back_at_the_next_attempt() -> None:
    async with a_grpc_server() as address:
        pass
    async with a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("grpc_unavailable", True)


@pytest.mark.parametrize("source", ["reflection", "file"])
async def test_any_unary_method_can_be_called_with_json(source: str) -> None:
    pool, place = a_shop()
    service = Service({"/shop.v1.Orders/Place": place})
    reflected = (["shop.v1.Orders"], pool) if source == "reflection" else None
    known = pool if source == "file" else None
    payload = {"item": "tea", "count": "4", "wanted_at": "2026-01-31T09:00:00Z"}
    async with a_grpc_server(service, reflected=reflected) as address, a_grpc_executor(known=known) as executor:
        jobs = [a_grpc_job(address, payload, service="shop.v1.Orders", method="Place") for _ in range(3)]
        outcomes = await asyncio.gather(*(executor.execute(job, Recorder()) for job in jobs))
    assert [json.loads(data_of(outcome) or "") for outcome in outcomes] == [
        {"number": "tea-4", "total_cents": "1000"}
    ] * 3
    assert service.calls == ["/shop.v1.Orders/Place"] * 3


async def test_a_template_makes_the_request_of_the_task() -> None:
    pool, place = a_shop()
    request = {"item": "{payload.what.name}", "count": "{attempt}", "wanted_at": "{payload.at}"}
    payload = {"what": {"name": "tea"}, "at": "2026-01-31T09:00:00Z"}
    wish: dict[str, Any] = {"service": "shop.v1.Orders", "method": "Place", "request": request}
    async with (
        a_grpc_server(Service({"/shop.v1.Orders/Place": place})) as address,
        a_grpc_executor(known=pool) as executor,
    ):
        outcome = await executor.execute(a_grpc_job(address, payload, **wish), Recorder())
        lacking = await executor.execute(a_grpc_job(address, {}, **wish), Recorder())
    assert json.loads(data_of(outcome) or "")["number"] == "tea-1"
    assert isinstance(lacking, Failed)
    assert (lacking.error.code, lacking.error.retryable) == ("bad_payload", False)
    assert "payload.what.name" in lacking.error.message


@pytest.mark.parametrize("payload", [{"nothing": 1}, {"count": "many"}, [1], {"item": {"a": 1}}])
async def test_a_payload_that_does_not_fit_the_method_is_final_and_is_not_sent(payload: Any) -> None:
    pool, place = a_shop()
    service = Service({"/shop.v1.Orders/Place": place})
    async with a_grpc_server(service) as address, a_grpc_executor(known=pool) as executor:
        job = a_grpc_job(address, payload, service="shop.v1.Orders", method="Place")
        outcome = await executor.execute(job, Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_payload", False)
    assert service.calls == []


@pytest.mark.parametrize(
    ("service", "method", "told"),
    [
        ("shop.v1.Orders", "Watch", "streams"),
        ("shop.v1.Orders", "Nothing", "has no method"),
        ("shop.v1.Nothing", "Place", "does not describe"),
    ],
)
async def test_a_method_that_cannot_be_called_is_final(service: str, method: str, told: str) -> None:
    pool, _ = a_shop()
    async with a_grpc_server(reflected=(["shop.v1.Orders"], pool)) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address, service=service, method=method), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("grpc_not_callable", False)
    assert told in outcome.error.message


async def test_a_server_without_reflection_needs_a_file() -> None:
    async with a_grpc_server() as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address, service="shop.v1.Orders", method="Place"), Recorder())
    assert isinstance(outcome, Failed)
    assert "grpc.descriptor_sets" in outcome.error.message


async def test_a_private_address_is_refused_and_not_called() -> None:
    service = Service({EXECUTE: succeed_with()})
    async with a_grpc_server(service) as address, a_grpc_executor(guard=TargetGuard()) as executor:
        outcome = await executor.execute(a_grpc_job(address), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("target_refused", False)
    assert service.calls == []


async def test_a_name_is_resolved_once_and_stays_the_authority() -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    guard = TargetGuard([AllowEntry(host="images.example")], lookup=lookup)
    async with a_grpc_server(Service({EXECUTE: succeed_with()})) as address, a_grpc_executor(guard=guard) as executor:
        port = address.rpartition(":")[2]
        outcome = await executor.execute(a_grpc_job(f"images.example:{port}"), Recorder())
    assert isinstance(outcome, Succeeded)
    assert asked == ["images.example"]


async def test_a_name_without_an_address_may_get_one() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    async with a_grpc_executor(guard=TargetGuard([LOOPBACK], lookup=lookup)) as executor:
        outcome = await executor.execute(a_grpc_job("nowhere.example:1"), Recorder())
    assert isinstance(outcome, Failed)
    assert outcome.error == TaskError("target_unknown", "the address of nowhere.example cannot be found: no such host")


async def test_metadata_beside_x_needs_the_settings_word() -> None:
    service = Service({EXECUTE: succeed_with()})
    async with a_grpc_server(service) as address, a_grpc_executor(metadata=frozenset({"tier"})) as executor:
        job = a_grpc_job(address)
        for sent, is_allowed in ({"x-team": "a", "tier": "gold"}, True), ({"authorization": "Bearer x"}, False):
            config = json.dumps({"address": address, "metadata": sent})
            outcome = await executor.execute(
                replace(job, config=replace(job.config, executor_config=config)), Recorder()
            )
            assert isinstance(outcome, Succeeded) is is_allowed
    assert {key: service.metadata[0].get(key) for key in ("x-team", "tier")} == {"x-team": "a", "tier": "gold"}
    assert len(service.calls) == 1


async def test_tls_by_a_named_target_and_both_sides_prove_themselves(tmp_path: Path) -> None:
    cert, key = a_certificate(tmp_path, "service.example")
    own_cert, own_key = a_certificate(tmp_path, "worker.example")
    credentials = server_credentials(cert, key, clients=own_cert)
    service = Service({EXECUTE: succeed_with("secret")})
    targets = {
        "known": TlsTarget(ca=cert, cert=own_cert, key=own_key, server_name="service.example"),
        "nameless": TlsTarget(ca=cert, server_name="service.example"),
        "stranger": TlsTarget(ca=own_cert, cert=own_cert, key=own_key, server_name="service.example"),
        "other": TlsTarget(ca=cert, cert=own_cert, key=own_key, server_name="another.example"),
        "lost": TlsTarget(ca=str(tmp_path / "nothing.pem")),
    }
    async with a_grpc_server(service, credentials=credentials) as address, a_grpc_executor(targets=targets) as executor:
        outcomes = {
            name: await executor.execute(a_grpc_job(address, tls=name), Recorder()) for name in (*targets, "unheard-of")
        }
        plain = await executor.execute(a_grpc_job(address), Recorder())
    assert data_of(outcomes.pop("known")) == '"secret"'
    assert {name: code_of(outcome) for name, outcome in outcomes.items()} == {
        "nameless": "grpc_unavailable",
        "stranger": "grpc_unavailable",
        "other": "grpc_unavailable",
        "lost": "grpc_not_callable",
        "unheard-of": "grpc_not_callable",
    }
    assert code_of(plain) == "grpc_unavailable"
    assert len(service.calls) == 1


async def test_secrets_and_certificates_go_to_the_hosts_of_their_target_alone(tmp_path: Path) -> None:
    cert, key = a_certificate(tmp_path, "service.example")
    service = Service({EXECUTE: succeed_with()})
    async with a_grpc_server(service, credentials=server_credentials(cert, key, clients=cert)) as address:
        known = TlsTarget(
            hosts=(address, "other.example"),
            ca=cert,
            cert=cert,
            key=key,
            server_name="service.example",
            secret_metadata={"x-rota-secret": "s", "x-tier": "gold"},
        )
        targets = {"here": known, "there": replace(known, hosts=("other.example", "127.0.0.1:1"))}
        async with a_grpc_executor(targets=targets) as executor:
            metadata = {"x-tier": "lead", "x-team": "a"}
            job = a_grpc_job(address)
            config = json.dumps({"address": address, "tls": "here", "metadata": metadata})
            job = replace(job, config=replace(job.config, executor_config=config))
            assert isinstance(await executor.execute(job, Recorder()), Succeeded)
            elsewhere = await executor.execute(a_grpc_job(address, tls="there"), Recorder())
    assert {name: service.metadata[0].get(name) for name in ("x-rota-secret", "x-tier", "x-team")} == {
        "x-rota-secret": "s",
        "x-tier": "gold",
        "x-team": "a",
    }
    assert isinstance(elsewhere, Failed)
    assert (elsewhere.error.code, elsewhere.error.retryable) == ("grpc_not_callable", False)
    assert len(service.calls) == 1


async def test_a_certificate_is_checked_for_the_name_in_the_config(tmp_path: Path) -> None:
    cert, key = a_certificate(tmp_path, "service.example")
    credentials = server_credentials(cert, key, clients=cert)

    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    targets = {"inside": TlsTarget(ca=cert, cert=cert, key=key)}
    guard = TargetGuard([LOOPBACK], lookup=lookup)
    service = Service({EXECUTE: succeed_with()})
    async with (
        a_grpc_server(service, credentials=credentials) as address,
        a_grpc_executor(targets=targets, guard=guard) as executor,
    ):
        port = address.rpartition(":")[2]
        right = await executor.execute(a_grpc_job(f"service.example:{port}", tls="inside"), Recorder())
        wrong = await executor.execute(a_grpc_job(f"impostor.example:{port}", tls="inside"), Recorder())
    assert isinstance(right, Succeeded)
    assert code_of(wrong) == "grpc_unavailable"


async def test_a_config_from_elsewhere_that_makes_no_sense_is_final() -> None:
    async with a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job("nonsense"), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_executor_config", False)


async def test_a_request_beyond_the_bound_is_not_sent() -> None:
    service = Service({EXECUTE: succeed_with()})
    async with a_grpc_server(service) as address, a_grpc_executor(max_message=2000) as executor:
        outcome = await executor.execute(a_grpc_job(address, {"a": "x" * 5000}), Recorder())
        streamed = await executor.execute(a_grpc_job(address, {"a": "x" * 5000}, streaming=True), Recorder())
    assert (code_of(outcome), code_of(streamed)) == ("request_too_large", "request_too_large")
    assert service.calls == []


async def test_the_library_is_loaded_by_the_first_call_and_once() -> None:
    built: list[Any] = []
    async with a_grpc_server(Service({EXECUTE: succeed_with()})) as address, a_grpc_executor() as executor:

        def build() -> Any:
            built.append(executor)
            return executor

        lazy = LazyGrpcExecutor(build)
        await lazy.start()
        await lazy.close()
        assert lazy.supports(a_grpc_job(address).config)
        assert built == []
        outcomes = await asyncio.gather(*(lazy.execute(a_grpc_job(address), Recorder()) for _ in range(5)))
        assert outcomes == [Succeeded()] * 5
        assert len(built) == 1
        await lazy.close()
