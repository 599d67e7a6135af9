"""Runs tasks as HTTP requests to services: one request for each attempt, whatever happens.

A service that is called twice for one attempt would do the work twice without anybody knowing. So nothing is repeated
here: the task's retry policy decides about another attempt, and `Idempotency-Key`, the same for all of them, lets the
service recognise it. Everything ends at the attempt's deadline, in whatever state the other side is.
"""

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from rota.application.ports.executor import Job, Reports
from rota.application.ports.system import Clock, Random
from rota.domain.attempt import Failed, Outcome, TaskError, TimedOut
from rota.domain.checks import MAX_MESSAGE, tidy_text
from rota.domain.errors import InvalidError
from rota.domain.ids import TenantId
from rota.domain.retry import UNTRIED
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.deadlines import Deadlines, Watch
from rota.infrastructure.executors.http.answer import judge
from rota.infrastructure.executors.http.circuit import Circuit, Slots, Trial
from rota.infrastructure.executors.http.config import Plan, plan_of
from rota.infrastructure.executors.http.request import Request, compose, override
from rota.infrastructure.executors.http.settings import DEFAULT_SECRET, HttpSettings, is_listed
from rota.infrastructure.executors.http.trouble import ExchangeError
from rota.infrastructure.executors.targets import TargetGuard
from rota.infrastructure.executors.templates import MissingValueError
from rota.sdk.signing import SIGNATURE, key_of

if TYPE_CHECKING:
    from rota.infrastructure.executors.http.transport import Transport

MOST_TARGETS = 1000  # that are remembered; beyond it those at rest are forgotten
MOST_PREPARED = 1000  # configs, the same
UNREACHED = frozenset({502, 503, 504})  # a proxy says that the service does not answer
NEAR = 0.05  # seconds; an attempt that is cancelled this near to its deadline ran into it


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is the same for all attempts of a config."""

    plan: Plan
    keys: Sequence[bytes] = field(repr=False)  # to sign with
    secret_headers: Mapping[str, str] = field(repr=False)
    is_local: bool  # whether the service is on this machine


class HttpExecutor:
    """The executor of type `http`."""

    def __init__(
        self, clock: Clock, random: Random, *, settings: HttpSettings, guard: TargetGuard | None = None
    ) -> None:
        self._clock = clock
        self._random = random
        self._settings = settings
        self._guard = guard or TargetGuard(settings.allow, closed=settings.closed)
        self._deadlines = Deadlines()
        self._prepared: dict[str, Prepared] = {}
        self._slots: dict[str, Slots] = {}
        self._circuits: dict[tuple[TenantId, str], Circuit] = {}
        self._transport: Transport | None = None
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Nothing yet: the client library is imported with the first request, for many a worker never makes one."""

    def supports(self, config: TaskConfig) -> bool:
        return True

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        try:
            prepared = self._prepare(job.config.executor_config)
            link = job.callback
            is_of_use = prepared.is_local or not _is_local_link(link)  # else a service elsewhere would call itself
            job = job.with_callback(link if is_of_use else "")
            request = self._compose(job, prepared)
        except InvalidError as exc:
            return _refuse("bad_config", str(exc))
        except MissingValueError as exc:
            return _refuse("missing_value", str(exc))
        try:
            with Watch(self._deadlines, job.deadline - self._clock.monotonic()):
                return await self._call(job, prepared.plan, request=request)
        except TimeoutError:
            return TimedOut()

    async def close(self) -> None:
        self._deadlines.close()
        if self._transport is not None:
            await self._transport.close()

    def _prepare(self, executor_config: str) -> Prepared:
        prepared = self._prepared.get(executor_config)
        if prepared is None:
            plan = plan_of(executor_config)
            prepared = Prepared(plan, self._find_keys(plan), self._find_headers(plan), _is_local(plan.host))
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[executor_config] = prepared
        return prepared

    def _compose(self, job: Job, prepared: Prepared) -> Request:
        request = compose(job, prepared.plan, keys=prepared.keys, now=self._clock.now())
        if not prepared.secret_headers:
            return request
        return replace(request, headers=override(request.headers, prepared.secret_headers))

    def _find_keys(self, plan: Plan) -> Sequence[bytes]:
        """Of the secret that the config names, or of the usual one if that is meant for this host."""
        name = plan.config.secret
        found = self._settings.secrets.get(name or DEFAULT_SECRET)
        if name is not None and found is None:
            raise InvalidError("executor.secret", f"http.secrets of this worker's settings has no {name!r}")
        if found is not None and is_listed(found.hosts, plan.host, port=plan.port):
            return [key_of(key) for key in found.keys]
        if name is not None:
            raise InvalidError("executor.url", f"the host is none of those that http.secrets.{name} is for")
        return ()

    def _find_headers(self, plan: Plan) -> Mapping[str, str]:
        """Those of the target that the config names; it must be meant for this host."""
        name = plan.config.target
        if name is None:
            return {}
        target = self._settings.targets.get(name)
        if target is None:
            raise InvalidError("executor.target", f"http.targets of this worker's settings has no {name!r}")
        if not is_listed(target.hosts, plan.host, port=plan.port):
            raise InvalidError("executor.url", f"the host is none of those that http.targets.{name} is for")
        if target.secret_headers and not target.allow_http and not plan.origin.startswith("https:"):
            problem = f"must begin with https:// for the headers of http.targets.{name}, unless allow_http is set there"
            raise InvalidError("executor.url", problem)
        return target.secret_headers

    async def _call(self, job: Job, plan: Plan, *, request: Request) -> Outcome:
        transport = self._transport or await self._open()
        slots = self._find_slots(plan.origin)
        await slots.take(plan.config.concurrency or self._settings.concurrency)
        try:
            circuit = self._find_circuit(job.task.spec.tenant_id, plan.origin)
            trial = circuit.admit()
            if trial is None:
                problem = f"{plan.origin} did not answer lately; no request was made"
                return Failed(TaskError(UNTRIED, problem), self._not_before(job, circuit.left()))
            try:
                return await self._exchange(job, plan, request=request, to=(transport, trial))
            except asyncio.CancelledError:
                if self._clock.monotonic() >= job.deadline - NEAR:
                    trial.note(is_answered=False)
                else:
                    trial.abandon()
                raise
        finally:
            slots.free()

    async def _exchange(self, job: Job, plan: Plan, *, request: Request, to: "tuple[Transport, Trial]") -> Outcome:
        transport, trial = to
        try:
            answer = await transport.exchange(request, plan, most=self._settings.max_response)
        except ExchangeError as exc:
            trial.note(is_answered=exc.is_answered) if exc.is_fault else trial.abandon()
            return Failed(TaskError(exc.code, str(exc), retryable=exc.is_retryable))
        trial.note(is_answered=answer.status not in UNREACHED)
        outcome = judge(answer, plan.config, callback=job.callback, now=self._clock.now())
        if not isinstance(outcome, Failed):
            return outcome
        if answer.status == HTTPStatus.UNAUTHORIZED:
            return _tell_unsigned(outcome, plan, request=request)
        if outcome.retry_after is not None:
            return Failed(outcome.error, self._not_before(job, outcome.retry_after))
        return outcome

    def _not_before(self, job: Job, wait: timedelta) -> timedelta:
        """The pause of the policy, or longer if the service asked for it."""
        policy, state = job.task.spec.retry, job.task.state
        return max(wait, policy.delay_before(state.retry_count + 1, chance=self._random.chance()))

    def _find_slots(self, origin: str) -> Slots:
        slots = self._slots.get(origin)
        if slots is None:
            if len(self._slots) >= MOST_TARGETS:
                self._slots = {key: known for key, known in self._slots.items() if known.in_use}
            slots = self._slots[origin] = Slots()
        return slots

    def _find_circuit(self, tenant_id: TenantId, origin: str) -> Circuit:
        """A tenant's own: what it waits for, and how long, is its choice, and must not cut others off."""
        key = (tenant_id, origin)
        circuit = self._circuits.get(key)
        if circuit is None:
            if len(self._circuits) >= MOST_TARGETS:
                self._circuits.clear()  # what is open opens again
            settings = self._settings
            circuit = Circuit(self._clock, failures=settings.breaker_failures, pause=settings.breaker_pause)
            self._circuits[key] = circuit
        return circuit

    async def _open(self) -> "Transport":
        async with self._opening:
            if self._transport is None:
                module = "rota.infrastructure.executors.http.transport"
                library = await asyncio.to_thread(importlib.import_module, module)
                self._transport = library.Transport(self._guard, self._settings.targets)
            return self._transport


def _is_local(host: str) -> bool:
    """Whether the host is, by its name, the machine that says it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local_link(link: str) -> bool:
    """The same of a link's host. Links differ, and what comes before their path hardly ever does."""
    return _is_local_origin("/".join(link.split("/", 3)[:3]))


@lru_cache(maxsize=64)
def _is_local_origin(origin: str) -> bool:
    return _is_local(urlsplit(origin).hostname or "")


def _tell_unsigned(outcome: Failed, plan: Plan, *, request: Request) -> Failed:
    """Of a service that asks who calls, where nothing in the request said so."""
    if plan.config.target is not None or SIGNATURE in request.headers:
        return outcome
    why = f"the config names no secret, and http.secrets of this worker's settings has no default for {plan.host}"
    message = tidy_text(f"{outcome.error.message}; this request was not signed: {why}", longest=MAX_MESSAGE)
    return replace(outcome, error=replace(outcome.error, message=message))


def _refuse(code: str, problem: str) -> Failed:
    return Failed(TaskError(code, problem, retryable=False))
