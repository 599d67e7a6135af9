"""The gRPC API mirrors the HTTP API: every operation, every field, every answer, every error."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import grpc.aio
import msgspec
import pytest
import pytest_asyncio
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from rota.domain.access import Role
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.task_config import TaskConfig
from rota.interfaces.grpc.convert import JSON, STAMP, is_map
from rota.interfaces.grpc.errors import STATUS
from rota.interfaces.grpc.methods import METHODS, Method
from rota.interfaces.operations.catalogue import OPERATIONS
from tests.support.api import STRANGER, defer_first_attempt
from tests.support.builders import a_worker
from tests.support.grpc_api import GrpcApi, a_grpc_api, method_of

UNARY = [method for method in METHODS.values() if not method.is_stream]
PASSING = frozenset(  # what two answers to the same request may differ in
    {"id", "ids", "task_id", "secret", "now", "at", "seq", "rerun_of", "next_cursor", "object", "load", "seen_at"}
    | {"created_at", "updated_at", "scheduled_at", "completed_at", "last_used_at", "expires_at", "revoked_at", "due_at"}
    | {"registered_at", "oldest_age_seconds", "created_per_second", "completed_per_second", "window_seconds", "detail"}
    | {"sentence", "address", "started_at", "upcoming", "recent", "next_fire_at", "since", "begin", "end"}
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[GrpcApi]:
    """One for all requests that change nothing."""
    async with a_grpc_api() as made:
        yield made


def name_of(method: Method) -> str:
    return method.name


def struct_of(answer: Any) -> Any:
    """The class of an answer; of a page, with its items."""
    return getattr(answer, "__origin__", answer)


def test_every_operation_has_its_method() -> None:
    assert {method.operation.name for method in METHODS.values()} == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("method", METHODS.values(), ids=name_of)
def test_a_request_has_every_field_of_its_operation(method: Method) -> None:
    operation = method.operation
    wanted = {*operation.path_names, *(operation.body.__struct_fields__ if operation.body else ())}
    wanted |= set(operation.query.__struct_fields__)
    if method.is_stream:
        wanted = (wanted | {"after"}) - {"limit", "cursor"}
    names = {field.name.removesuffix(JSON) for field in method.request.DESCRIPTOR.fields}
    assert names == wanted, f"{method.request.DESCRIPTOR.name} in proto/rota/v1 has other fields than {operation.name}"


def list_pairs(descriptor: Any, kind: Any) -> Iterator[tuple[Any, Any]]:
    """A message and the class of the answer it stands for, and all those inside."""
    inside = kind.__args__ if hasattr(kind, "__args__") else ()
    struct = struct_of(kind)
    yield descriptor, struct
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    for field in descriptor.fields:
        if field.message_type is not None and field.message_type.full_name != STAMP and not is_map(field):
            found = _structs_in(fields.get(field.name), inside)
            assert found, f"{descriptor.name}.{field.name} has no counterpart"
            yield from list_pairs(field.message_type, found[0])


def _structs_in(kind: Any, inside: tuple[Any, ...]) -> list[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    if isinstance(kind, TypeVar):
        return list(inside)
    return [one for part in getattr(kind, "__args__", ()) for one in _structs_in(part, inside)]


@pytest.mark.parametrize("method", UNARY, ids=name_of)
def test_an_answer_has_every_field_of_its_operation(method: Method) -> None:
    for answer in method.operation.answers.values():
        if answer is None:
            assert not method.response.DESCRIPTOR.fields
            continue
        for descriptor, struct in list_pairs(method.response.DESCRIPTOR, answer):
            names = {field.name.removesuffix(JSON) for field in descriptor.fields}
            assert names == set(struct.__struct_fields__), f"{descriptor.name} differs from {struct.__name__}"


def fill(message: Message, values: Mapping[str, Any]) -> Message:
    """The message with what the JSON of a request would say."""
    for name, value in values.items():
        field: Any = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            setattr(message, f"{name}{JSON}", msgspec.json.encode(value).decode())
        elif is_map(field):
            getattr(message, name).update(value)
        elif field.message_type is None and not field.is_repeated:
            setattr(message, name, value)
        elif field.message_type is None:
            getattr(message, name).extend(value)
        elif field.message_type.full_name == STAMP:
            getattr(message, name).FromDatetime(datetime.fromisoformat(value))
        elif field.is_repeated:
            for item in value:
                fill(getattr(message, name).add(), item)
        else:
            fill(getattr(message, name), value)
    return message


def as_json(message: Any) -> dict[str, Any]:
    """The answer as HTTP would write it."""
    return {field.name.removesuffix(JSON): _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.name.endswith(JSON):
        return msgspec.json.decode(value)
    if is_map(field):
        return dict(value)
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if isinstance(value, Timestamp):
        return value.ToDatetime(tzinfo=UTC)
    return [as_json(item) for item in value] if field.is_repeated else as_json(value)


def settle(value: Any, name: str = "") -> Any:
    """Without what differs between any two answers, but with whether it is there."""
    if name in PASSING and value is not None:
        return "…"
    if isinstance(value, dict):
        return {key: settle(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [settle(item) for item in value]
    is_moment = name.endswith("_at") or name in ("begin", "end", "first", "last")
    if isinstance(value, str) and is_moment and "T" in value:
        return datetime.fromisoformat(value)
    return value


class Scene:
    """One of each thing for every request, so that what one interface changes the other one finds as it was."""

    def __init__(self, api: GrpcApi, http: Any) -> None:
        self.api = api
        self.http = http
        self.number = 0

    async def make(self, operation: str) -> dict[str, Any]:
        """What to send: names of the path, of the query and of the body together."""
        self.number += 1
        return dict(await getattr(self, operation, self._nothing)())

    async def _nothing(self) -> dict[str, Any]:
        return {}

    async def _task(self, **changes: Any) -> str:
        made = await self.http.post("/tasks", json={"type": "email", "metadata": {"a": "b"}, **changes})
        return str(made.json()["id"])

    async def _ended(self) -> str:
        task_id = await self._task()
        await self.http.post(f"/tasks/{task_id}:cancel", json={"reason": "x"})
        return task_id

    async def create_task(self) -> dict[str, Any]:
        retry = {"max_retries": 1, "strategy": "FIXED", "delay_seconds": 1.5}
        payload = {"number": 2**60 + 1, "text": "Grüße", "list": [None, True, 0.25]}
        return {
            **{"type": "email", "payload": payload, "name": "first", "priority": 5, "metadata": {"team": "a"}},
            **{"timeout_seconds": 12.5, "retry": retry, "scheduled_at": "2026-12-01T12:00:00.123456+00:00"},
        }

    async def create_tasks(self) -> dict[str, Any]:
        return {"tasks": [{"type": "email"}, {"type": "email", "payload": {"n": [1]}, "delay_seconds": 60.0}]}

    async def get_task(self) -> dict[str, Any]:
        return {"id": await self._ended(), "wait": "1s"}

    async def amend_task(self) -> dict[str, Any]:
        return {"id": await self._task(), "priority": 9, "scheduled_at": "2026-12-01T12:00:00+00:00"}

    async def cancel_task(self) -> dict[str, Any]:
        return {"id": await self._task(), "reason": "no longer needed"}

    async def retry_task(self) -> dict[str, Any]:
        return {"id": await self._ended()}

    async def explain_task(self) -> dict[str, Any]:
        return {"id": await self._task()}

    async def list_tasks(self) -> dict[str, Any]:
        await self._task(name=f"listed {self.number}")
        return {"status": ["PENDING"], "type": ["email"], "limit": 1, "metadata": {"a": "b"}, "q": "listed"} | {
            "created_after": "2026-01-01T00:00:00+00:00"
        }

    async def cancel_tasks(self) -> dict[str, Any]:
        return {"ids": [await self._task(), await self._ended()], "reason": "x"}

    async def retry_tasks(self) -> dict[str, Any]:
        return {"ids": [await self._ended()]}

    async def reprioritise_tasks(self) -> dict[str, Any]:
        return {"ids": [await self._task(), await self._ended()], "new_priority": 5}

    async def read_logs(self) -> dict[str, Any]:
        return {"id": await self._ended(), "limit": 10}

    async def _deferred(self) -> dict[str, Any]:
        task_id = TaskId(int(await self._task()))
        await defer_first_attempt(self.api.services.node, task_id)
        return {"id": str(task_id), "attempt": 1}

    async def complete_attempt(self) -> dict[str, Any]:
        return await self._deferred() | {"data": {"sent": [1, None]}, "message": "done"}

    async def fail_attempt(self) -> dict[str, Any]:
        told = {"code": "http_503", "message": "busy", "retryable": False, "retry_after_seconds": 1.5}
        return await self._deferred() | told

    async def heartbeat_attempt(self) -> dict[str, Any]:
        return await self._deferred() | {"lease_seconds": 30.0}

    async def progress_attempt(self) -> dict[str, Any]:
        return await self._deferred() | {"fraction": 0.5, "message": "half"}

    async def _config(self) -> str:
        name = f"report-{self.number}"
        await self.http.put(f"/task-configs/{name}", json={"name": "Report", "payload": {"a": 1}})
        return name

    async def list_configs(self) -> dict[str, Any]:
        return {"limit": 1}

    async def get_config(self) -> dict[str, Any]:
        return {"type": "email"}

    async def put_config(self) -> dict[str, Any]:
        rules = {"retry_on": ["5xx", "UNAVAILABLE"], "give_up_on": ["501"], "total_timeout_seconds": 90.5}
        return {
            **{"type": "report", "name": "Report", "description": "d", "executor": {"type": "local", "x": [1]}},
            **{"timeout_seconds": 5.0, "retry": rules, "priority": 3, "max_concurrent": 2},
            **{"rate_per_second": 2.5, "payload": {"a": 1}, "enabled": True, "source": "team-a"},
        }

    async def delete_config(self) -> dict[str, Any]:
        return {"type": await self._config()}

    async def pause_config(self) -> dict[str, Any]:
        return {"type": "email"}

    resume_config, check_config = pause_config, put_config

    async def list_revisions(self) -> dict[str, Any]:
        return {"type": await self._config(), "limit": 2}

    async def roll_back_config(self) -> dict[str, Any]:
        await self.http.put("/task-configs/again", json={"name": "Again"})
        return {"type": "again", "revision": 1}

    async def trigger_config(self) -> dict[str, Any]:
        await self.http.post("/task-configs/email:resume")
        return {"type": "email", "payload": {"now": True}}

    async def preview_config(self) -> dict[str, Any]:
        await self.http.put("/task-configs/nightly", json={"schedule": {"cron": "0 3 * * *"}})
        return {"type": "nightly", "count": 3, "after": "2030-01-01T00:00:00+00:00"}

    async def pause_schedule(self) -> dict[str, Any]:
        if self.number == 1:
            await self.preview_config()
        return {"type": "nightly", "note": "the disk is full"}

    async def resume_schedule(self) -> dict[str, Any]:
        return {"type": (await self.preview_config())["type"]}

    async def list_occurrences(self) -> dict[str, Any]:
        at = datetime(2026, 6, 1, tzinfo=UTC)
        skipped = Occurrence(task_type="nightly", fire_at=at, reason="paused", since=at - timedelta(days=1))
        config: dict[str, Any] = {"tenant_id": DEFAULT_TENANT, "task_type": "nightly", "revision": 1}
        firing = FullFiring(**config, seen_at=at, next_fire_at=None, occurrences=(skipped,))
        store = self.api.services.node.store
        await store.configs.put(TaskConfig(type="nightly", schedule=Schedule(cron="0 3 * * *"), next_fire_at=at))
        assert await store.schedules.fire([firing]) == [(skipped,)]
        return {"type": "nightly", "limit": 3}

    async def preview_schedule(self) -> dict[str, Any]:
        return {"schedule": {"cron": "0 3 * * *"}, "type": "nightly", "after": "2030-01-01T00:00:00+00:00"}

    async def get_report(self) -> dict[str, Any]:
        return {"by": "hour", "zone": "Asia/Kolkata", "task_type": ["email"], "format": "json"}

    async def forecast_schedules(self) -> dict[str, Any]:
        await self.preview_config()
        times = {"begin": "2030-01-01T00:00:00+00:00", "end": "2030-01-03T00:00:00+00:00"}
        return {**times, "buckets": 2, "type": ["nightly"]}

    async def backfill_schedule(self) -> dict[str, Any]:
        await self.preview_config()
        times = {"begin": "2026-01-01T00:00:00+00:00", "end": "2026-01-04T00:00:00+00:00"}
        return {
            **{"type": "nightly", **times, "name": "march", "order": "newest", "only_missing": True},
            **{"payload": {"n": 1}, "dry_run": True, "limit": 2},
        }

    async def put_calendar(self) -> dict[str, Any]:
        return {
            **{"name": "office", "description": "d", "dates": ["2026-12-24"], "years": [2026, 2028]},
            **{"windows": [{"weekdays": [6, 7]}], "periods": [], "business_days": {"holidays": ["2026-12-25"]}},
        }

    async def get_calendar(self) -> dict[str, Any]:
        await self.http.put("/calendars/office", json={"dates": ["2026-12-24"], "windows": [{"begin": "22:00"}]})
        return {"name": "office"}

    delete_calendar = get_calendar

    async def list_calendars(self) -> dict[str, Any]:
        await self.get_calendar()
        return {"limit": 1}

    async def _worker(self) -> str:
        worker = a_worker(700 + self.number, name="pod", labels={"zone": "a"})
        await self.api.services.node.store.workers.register(worker)
        return str(worker.id)

    async def list_workers(self) -> dict[str, Any]:
        await self._worker()
        return {"limit": 1, "all": True}

    async def get_worker(self) -> dict[str, Any]:
        return {"id": await self._worker()}

    drain_worker = resume_worker = get_worker

    async def amend_worker(self) -> dict[str, Any]:
        return {"id": await self._worker(), "capacity": 7}

    async def create_token(self) -> dict[str, Any]:
        return {"name": "another", "role": "operator", "expires_in_seconds": 60.0}

    async def list_tokens(self) -> dict[str, Any]:
        return {"limit": 1}

    async def revoke_token(self) -> dict[str, Any]:
        made = await self.http.post("/tokens", json={"name": "passing"})
        return {"id": made.json()["token"]["id"]}

    async def list_audit(self) -> dict[str, Any]:
        await self._config()
        return {"limit": 1}


async def ask_http(http: Any, method: Method, *, values: Mapping[str, Any]) -> tuple[int, Any]:
    operation, left = method.operation, dict(values)
    path = operation.path
    for name in operation.path_names:
        path = path.replace(f"{{{name}}}", str(left.pop(name)))
    query: list[tuple[str, Any]] = []
    for name in set(operation.query.__struct_fields__) & left.keys():
        value = left.pop(name)
        if isinstance(value, dict):
            query += [(f"{name}.{key}", item) for key, item in value.items()]
        else:
            query += [(name, item) for item in (value if isinstance(value, list) else [value])]
    answer = await http.request(operation.method, path, params=query, json=left if operation.body else None)
    return answer.status_code, answer.json() if answer.content else None


@pytest.mark.parametrize("method", UNARY, ids=name_of)
async def test_both_interfaces_answer_the_same(method: Method) -> None:
    async with a_grpc_api() as api, api.client() as http:
        scene = Scene(api, http)
        values = await scene.make(method.operation.name)
        status, over_http = await ask_http(http, method, values=values)
        assert status < 400, over_http
        if method.operation.method != "GET":
            values = await scene.make(method.operation.name)
        answer = await api.call(method.name, fill(method.request(), values))
    if over_http is None:
        assert not method.response.DESCRIPTOR.fields
        return
    theirs, ours = settle(over_http), settle(as_json(answer))
    if method.operation.name == "put_config":  # the second one is a change of the first
        assert (theirs.pop("revision"), ours.pop("revision")) == (1, 1)
    assert ours == theirs


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("GetTask", {"id": "7"}, "task_not_found"),
    ("GetTask", {"id": "x"}, "invalid_request"),
    ("GetTask", {"id": "7", "wait": "soon"}, "invalid_request"),
    ("GetTask", {"id": "7", "wait": "5m"}, "invalid_request"),
    ("CreateTask", {"type": "nothing"}, "invalid_request"),
    ("CreateTask", {"type": "email", "priority": 99}, "invalid_request"),
    ("CreateTask", {"type": "email", "name": "a\x00b"}, "invalid_request"),
    ("CreateTask", {"type": "email", "delay_seconds": -1.0}, "invalid_request"),
    ("CreateTasks", {"tasks": [{"type": "email"}, {"type": "?"}, {"type": "email"}]}, "invalid_request"),
    ("UpdateTask", {"id": "7", "priority": 1}, "task_not_found"),
    ("UpdateTask", {"id": "7"}, "invalid_request"),
    ("CancelTask", {"id": "7"}, "task_not_found"),
    ("RetryTask", {"id": "7"}, "task_not_found"),
    ("CancelTasks", {}, "invalid_request"),
    ("ReprioritiseTasks", {"type": ["email"]}, "invalid_request"),
    ("CompleteAttempt", {"id": "7", "attempt": 1}, "task_not_found"),
    ("FailAttempt", {"id": "7", "attempt": 0}, "invalid_request"),
    ("HeartbeatAttempt", {"id": "7", "attempt": 1, "lease_seconds": 1.0}, "invalid_request"),
    ("ProgressAttempt", {"id": "7", "attempt": 1}, "invalid_request"),
    ("ListTasks", {"status": ["GONE"]}, "invalid_request"),
    ("ListTasks", {"limit": 5000}, "invalid_request"),
    ("ListTasks", {"cursor": "nonsense"}, "invalid_request"),
    ("GetTaskLogs", {"id": "7"}, "task_not_found"),
    ("GetTaskConfig", {"type": "nothing"}, "task_config_not_found"),
    ("PutTaskConfig", {"type": "email", "revision": 0, "name": "other"}, "revision_conflict"),
    ("PutTaskConfig", {"type": "bad name"}, "invalid_request"),
    ("PutTaskConfig", {"type": "x", "executor": {"type": 7}}, "invalid_request"),
    ("TriggerTaskConfig", {"type": "nothing"}, "task_config_not_found"),
    ("GetWorker", {"id": "7"}, "worker_not_found"),
    ("RevokeToken", {"id": "7"}, "token_not_found"),
    ("CreateToken", {"name": "x", "role": "king"}, "invalid_request"),
]


@pytest.mark.parametrize(("name", "values", "code"), BAD, ids=[f"{number}-{one[0]}" for number, one in enumerate(BAD)])
@pytest.mark.asyncio(loop_scope="module")
async def test_both_interfaces_refuse_the_same(shared: GrpcApi, name: str, values: dict[str, Any], code: str) -> None:
    method, api = method_of(name), shared
    async with api.client() as http:
        status, problem = await ask_http(http, method, values=values)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.call(name, fill(method.request(), values))
    error = caught.value
    trailers = dict(error.trailing_metadata() or ())
    assert trailers["rota-code"] == problem["code"] == code
    assert error.code() is STATUS[status]
    assert error.details() == problem["detail"]


@pytest.mark.parametrize("method", METHODS.values(), ids=name_of)
@pytest.mark.asyncio(loop_scope="module")
async def test_each_role_may_do_what_it_covers_and_no_more(shared: GrpcApi, method: Method) -> None:
    known = {"id": "7", "attempt": 1}
    values = {name: known.get(name, "nothing") for name in method.operation.path_names}
    request = fill(method.request(), values)
    for role in Role:
        code = await code_of(shared, method, request=request, role=role)
        denied = code is grpc.StatusCode.PERMISSION_DENIED
        assert denied is not role.covers(method.operation.role), f"{role}: {code}"
        assert code is not grpc.StatusCode.INTERNAL


async def code_of(api: GrpcApi, method: Method, *, request: Message, role: Role) -> grpc.StatusCode:
    try:
        if not method.is_stream:
            await api.call(method.name, request, role=role)
            return grpc.StatusCode.OK
        call = await api.stream(method.name, request, role=role)
        await call.initial_metadata()
        if call.done():
            await call.read()
        call.cancel()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(
    "method",
    [one for one in UNARY if one.operation.path_names and not one.operation.path.startswith("/workers")],
    ids=name_of,
)
async def test_things_of_another_tenant_do_not_exist(method: Method) -> None:
    async with a_grpc_api() as api, api.client() as http:
        await api.services.node.store.configs.delete(STRANGER, "email")
        values = await Scene(api, http).make(method.operation.name)
        if method.operation.name in ("put_config", "check_config"):
            values = {"type": "email", "revision": 1, "name": "other"}
        elif method.operation.name == "put_calendar":
            values |= {"revision": 1}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.call(method.name, fill(method.request(), values), tenant_id=STRANGER)
    wanted = grpc.StatusCode.NOT_FOUND
    if method.operation.name in ("put_config", "check_config", "put_calendar"):
        wanted = grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.code() is wanted
