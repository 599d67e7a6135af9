"""Who is let in, and what happens to whoever should not be."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from rota.domain.access import Role
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.ids import DEFAULT_TENANT
from rota.interfaces.http import body as http_body
from rota.interfaces.http import endpoint, protocol
from rota.interfaces.http import state as http_state
from rota.interfaces.http.gate import LONGEST_LOGGED_PATH
from rota.interfaces.operations.catalogue import BASE, OPERATIONS
from rota.interfaces.operations.operation import Operation
from tests.support.api import STRANGER, Api, an_api
from tests.support.builders import a_config

EVERYWHERE = "0.0.0.0"  # noqa: S104 so do containers listen
CLOSED = ("/metrics", "/nothing", "/api", "/api/v1", "/api/v1/nothing", "/docs/../metrics", "/docs/nothing")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


def name_of(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer x", "Basic YTpi", "rota_1_x", "Bearer rota_1_" + "a" * 43])
async def test_nothing_is_open_without_a_good_token(api: Api, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with httpx2.AsyncClient(base_url=api.url, headers=headers) as nobody:
        for operation in OPERATIONS:
            path = operation.path.replace("{id}", "7").replace("{type}", "email").replace("{attempt}", "1")
            answer = await nobody.request(operation.method, f"{BASE}{path}")
            assert answer.status_code == 401, operation.name
            assert answer.json()["code"] == "unauthenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in CLOSED:
            assert (await nobody.get(path)).status_code == 401, path


async def test_two_authorizations_are_none(api: Api) -> None:
    secret = await api.secret()
    headers = [("Authorization", f"Bearer {secret}"), ("Authorization", "Bearer other")]
    async with api.nobody() as nobody:
        assert (await nobody.get("/api/v1/tasks", headers=headers)).status_code == 401


async def test_what_is_public_is_the_same_for_everybody(api: Api) -> None:
    async with api.nobody() as nobody:
        for path in ("/", "/docs", "/docs/docs.js", "/docs/docs.css", "/livez", "/readyz", "/openapi.json"):
            answer = await nobody.get(path)
            assert answer.status_code == 200, path
            assert (await nobody.head(path)).status_code == 200
            assert (await nobody.post(path)).status_code == 405


async def test_every_answer_has_the_strict_headers(api: Api) -> None:
    async with api.nobody() as nobody, api.client() as http:
        answers = [await nobody.get("/"), await nobody.get("/nothing"), await http.get("/tasks")]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert answers[2].headers["cache-control"] == "no-store"


async def things_of(api: Api, tenant: Any) -> dict[str, str]:
    """One of each thing in a tenant, by what its path needs."""
    async with api.client(tenant_id=tenant) as client:
        task = (await client.post("/tasks", json={"type": "email"})).json()["id"]
        token = (await client.post("/tokens", json={"name": "another"})).json()["token"]["id"]
    return {"/tasks": task, "/tokens": token}


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
async def test_each_role_may_do_what_it_covers_and_no_more(api: Api, operation: Operation) -> None:
    path = operation.path.replace("{id}", "7").replace("{type}", "nothing").replace("{attempt}", "1")
    for role in Role:
        async with api.client(role) as client:
            if operation.name == "watch_events" and role.covers(operation.role):
                async with client.stream("GET", path) as answer:
                    assert answer.status_code == 200
                continue
            answer = await client.request(operation.method, path, json={} if operation.body is not None else None)
        assert answer.status_code < 500
        assert (answer.status_code == 403) is not role.covers(operation.role), f"{role}: {answer.status_code}"


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.path_names and not one.path.startswith("/workers")],
    ids=name_of,
)
async def test_things_of_another_tenant_do_not_exist(api: Api, operation: Operation) -> None:
    await api.services.node.store.configs.put(a_config("ours"))
    things = await things_of(api, DEFAULT_TENANT)
    kind = f"/{operation.tag}"
    path = operation.path.replace("{id}", things.get(kind, "")).replace("{type}", "ours").replace("{attempt}", "1")
    path = path.replace("{name}", "office")
    await api.services.calendars.put(StoredCalendar(calendar=Calendar(name="office")))
    bodies: dict[str, dict[str, object]] = {
        "amend_task": {"priority": 1},
        "put_config": {"revision": 1},
        "check_config": {"revision": 1},
        "put_calendar": {"revision": 1},
        "roll_back_config": {"revision": 1},
        "progress_attempt": {"fraction": 1},
        "backfill_schedule": {"begin": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
    }
    body = bodies.get(operation.name, {}) if operation.body is not None else None
    async with api.client(tenant_id=STRANGER) as stranger:
        answer = await stranger.request(operation.method, path, json=body)
    is_new = operation.name in ("put_config", "check_config", "put_calendar")
    assert answer.status_code == (409 if is_new else 404), answer.text


HOSTILE = [
    (b"[" * 100_000, 422),
    (b'{"a":' * 50_000, 422),
    (b'{"type":"email","payload":"' + b"x" * 300_000 + b'"}', 422),
    (b'{"type":"email","payload":' + b"[" * 65 + b"]" * 65 + b"}", 422),
    (b'{"type":"email","type":"email"}', 422),
    (b'{"type":"email","payload":NaN}', 422),
    (b'{"type":"email","payload":1e400}', 422),
    (b'{"type":"email","payload":"\\ud800"}', 422),
    (b'{"type":"email","name":"\\u0000"}', 422),
    (b'{"type":"email","name":"a\x00b"}', 422),
    (b"\xff\xfe\x00", 422),
    (b'{"type":"email","delay_seconds":1e308}', 422),
    (b'{"type":"email","timeout_seconds":-1}', 422),
    (b'{"type":"email","priority":99999999999999999999}', 422),
    (b'{"type":"email","metadata":{"a":1}}', 422),
    (b'{"type":"email","metadata":' + json.dumps({f"k{n}": "v" for n in range(65)}).encode() + b"}", 422),
    (b'{"type":"../../etc/passwd"}', 422),
    (b'{"type":"email","idempotency_key":""}', 422),
    (b'{"type":"email","scheduled_at":"9999-12-31T23:59:59Z"}', 422),
    (b'{"type":"email","scheduled_at":"0001-01-01T00:00:00+23:59"}', 422),
    (b"x" * (1024 * 1024 + 1), 413),
]


@pytest.mark.parametrize(("raw", "status"), HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_body_is_refused_and_nothing_is_stored(api: Api, raw: bytes, status: int) -> None:
    async with api.client() as http:
        answer = await http.post("/tasks", content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]
        if status == 422:
            assert answer.json()["errors"]
        assert (await http.get("/tasks")).json()["items"] == []


async def test_a_body_without_a_length_is_stopped_at_the_bound(api: Api) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 64 * 1024 * 1024:
            sent += 65536
            yield b" " * 65536

    async with api.client() as http:
        try:
            answer = await http.post("/tasks", content=endless())
            assert answer.status_code == 413
        except (httpx2.WriteError, httpx2.ReadError, httpx2.RemoteProtocolError):
            pass  # it hung up while we were still sending
    assert sent < 16 * 1024 * 1024


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_only_json_is_read(api: Api, media: str) -> None:
    async with api.client() as http:
        answer = await http.post("/tasks", content=b'{"type":"email"}', headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_headers_and_paths_have_their_bounds(api: Api) -> None:
    async with api.client() as http:
        assert (await http.get("/tasks", headers={"X-Long": "x" * 20_000})).status_code == 431
        assert (await http.get(f"/tasks?q={'x' * 9000}")).status_code == 414


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8420"])
async def test_a_name_that_was_made_to_point_here_is_not_answered_to(api: Api, host: str) -> None:
    async with api.client() as http:
        answer = await http.get("/tasks", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420", "[::1]", "rota.example"])
@pytest.mark.parametrize("address", ["127.0.0.1", EVERYWHERE])
async def test_names_of_loopback_and_those_in_the_settings_are(host: str, address: str) -> None:
    wanted = {"host": address, "hosts": ["rota.example"], "behind_tls_proxy": True}
    async with an_api(api=wanted) as api, api.client() as http:
        assert (await http.get("/tasks", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    ("hosts", "status"),
    [([], 200), (["rota.example"], 400)],
)
async def test_beyond_loopback_the_settings_say_which_names_are_answered_to(hosts: list[str], status: int) -> None:
    wanted = {"host": EVERYWHERE, "hosts": hosts, "behind_tls_proxy": True}
    async with an_api(api=wanted) as api, api.client() as http:
        assert (await http.get("/tasks", headers={"Host": "evil.example"})).status_code == status


async def test_a_health_check_from_inside_a_container_is_answered() -> None:
    wanted = {"host": EVERYWHERE, "hosts": ["rota.example"], "behind_tls_proxy": True}
    async with an_api(api=wanted) as api, api.nobody() as http:
        for path in ("/livez", "/readyz"):
            assert (await http.get(path, headers={"Host": "127.0.0.1:8420"})).status_code == 200


async def test_a_token_has_its_rate() -> None:
    async with an_api(api={"rate": 2}) as api, api.client() as http, api.client(Role.VIEWER) as other:
        answers = [await http.get("/tasks") for _ in range(20)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].json()["code"] == "rate_limited"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await other.get("/tasks")).status_code == 200, "tokens do not share"


async def test_whoever_tries_secrets_is_slowed_down_and_fills_no_log() -> None:
    with capture_logs() as logs:
        async with an_api(api={"rate": 1}) as api, api.nobody() as nobody, api.client() as http:
            statuses = [(await nobody.get("/api/v1/tasks")).status_code for _ in range(20)]
            assert statuses[0] == 401
            assert 429 in statuses
            assert (await http.get("/tasks")).status_code == 200, "a good token is let in from the same address"
    denied = [line for line in logs if line["event"] == "api.denied"]
    assert 0 < len(denied) < 20


async def test_guesses_beyond_the_rate_do_not_reach_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async with an_api(api={"rate": 1}) as api, api.nobody() as nobody, api.client() as http:
        assert (await http.get("/tasks")).status_code == 200
        tokens = type(api.services.node.store.tokens)
        find, asked = tokens.find, []

        async def count(self: Any, token_id: str) -> Any:
            asked.append(token_id)
            return await find(self, token_id)

        monkeypatch.setattr(tokens, "find", count)
        guesses = [{"Authorization": f"Bearer rota_{number}_{'a' * 43}"} for number in range(1, 101)]
        statuses = [(await nobody.get("/api/v1/tasks", headers=guess)).status_code for guess in guesses]
        assert statuses.count(401) + statuses.count(429) == len(guesses)
        assert len(asked) == statuses.count(401)
        assert 429 in statuses
        assert (await http.get("/tasks")).status_code == 200, "who was let in before is let in from the same address"


async def test_a_flood_of_wrong_names_is_slowed_down_and_its_paths_are_cut() -> None:
    with capture_logs() as logs:
        async with an_api(api={"rate": 1}) as api, api.nobody() as nobody:
            path = f"/{'x' * 5000}"
            statuses = [(await nobody.get(path, headers={"Host": "evil"})).status_code for _ in range(50)]
    assert statuses[0] == 400
    assert 429 in statuses
    denied = [line for line in logs if line["event"] == "api.denied"]
    assert len(denied) == statuses.count(400)
    assert {len(line["path"]) for line in denied} == {LONGEST_LOGGED_PATH}


@pytest.mark.parametrize("token_id", ["%00", "abc", "0", "9" * 30, "%ff", "1%00"])
async def test_what_is_no_id_is_no_token_and_the_store_is_not_asked(
    api: Api, token_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with api.client() as http:
        assert (await http.get("/tokens")).status_code == 200

        async def fail(*_: object, **__: object) -> None:
            raise ValueError("A string literal cannot contain NUL (0x00) characters.")

        monkeypatch.setattr(type(api.services.node.store.tokens), "revoke", fail)
        answer = await http.delete(f"/tokens/{token_id}")
    assert (answer.status_code, answer.json()["code"]) == (404, "token_not_found")


async def test_a_refusal_is_logged_without_the_secret(api: Api) -> None:
    secret = await api.secret(Role.VIEWER)
    with capture_logs() as logs:
        async with api.client(Role.VIEWER) as viewer:
            await viewer.post("/tasks", json={"type": "email"})
        async with api.nobody() as nobody:
            await nobody.get("/api/v1/tasks?token=hidden", headers={"Authorization": "Bearer rota_wrong"})
    denied = [line for line in logs if line["event"] == "api.denied"]
    assert [line["code"] for line in denied] == ["permission_denied", "unauthenticated"]
    assert denied[0]["path"] == "/api/v1/tasks"
    assert not any(text in str(logs) for text in (secret, "hidden", "rota_wrong"))


async def test_a_defect_tells_the_client_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the secret plan")

    monkeypatch.setattr(type(api.services.node.store.tasks), "list_page", fail)
    with capture_logs() as logs:
        async with api.client() as http:
            answer = await http.get("/tasks")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret plan" not in answer.text
    assert any(line["event"] == "api.failed" for line in logs)


async def test_a_revoked_token_is_refused_at_once_here(api: Api) -> None:
    async with api.client() as http:
        made = (await http.post("/tokens", json={"name": "ci", "role": "operator", "expires_in_seconds": 3600})).json()
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {made['secret']}"}) as ci:
            assert (await ci.get(f"{api.url}/api/v1/tasks")).status_code == 200
            assert (await http.delete(f"/tokens/{made['token']['id']}")).status_code == 204
            assert (await ci.get(f"{api.url}/api/v1/tasks")).status_code == 401
        listed = (await http.get("/tokens")).json()["items"]
    assert made["secret"] not in json.dumps(listed)
    assert next(token for token in listed if token["id"] == made["token"]["id"])["revoked_at"] is not None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a", "role": "root"}, "role"),
        ({}, "name"),
        ({"name": "a", "expires_in_seconds": 0}, "expires_in_seconds"),
    ],
)
async def test_a_bad_token_is_refused_with_its_field(api: Api, body: dict[str, Any], field: str) -> None:
    async with api.client() as http:
        answer = await http.post("/tokens", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


async def test_an_unknown_method_names_those_there_are(api: Api) -> None:
    async with api.client() as http:
        answer = await http.put("/tasks/7")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, PATCH")


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.read()


@pytest.mark.parametrize("said", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_a_request_that_does_not_get_past_its_headers_is_cut_off(
    api: Api, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT", timedelta(milliseconds=200))
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(said)
    with suppress(ConnectionResetError):
        assert await read_until_closed(reader) == b""
    writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_body, "BODY_TIMEOUT", timedelta(milliseconds=200))
    host, port = api.url.removeprefix("http://").split(":")
    head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {await api.secret()}\r\n"
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}Content-Length: 100\r\nConnection: close\r\n\r\n{{".encode())
    answer = await read_until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "READ_TIMEOUT", timedelta(milliseconds=200))
    with capture_logs() as logs:
        async with an_api() as api:
            body = {"tasks": [{"type": "email", "payload": {"text": "x" * 100_000}}] * 100}
            async with api.client() as http:
                assert (await http.post("/tasks:batch", json=body)).status_code == 201
            host, port = api.url.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(host, int(port), limit=1024)
            head = f"Host: localhost\r\nAuthorization: Bearer {await api.secret()}\r\n\r\n"
            writer.write(f"GET /api/v1/tasks?limit=100&full=true HTTP/1.1\r\n{head}".encode())
            async with asyncio.timeout(60):
                while not any(line["event"] == "api.client_stalled" for line in logs):
                    await asyncio.wait([asyncio.create_task(api.services.node.store.tasks.now())])
            writer.close()


async def test_a_connection_that_ends_in_its_body_leaves_nothing_behind(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_body, "BODY_TIMEOUT", timedelta(milliseconds=200))
    host, port = api.url.removeprefix("http://").split(":")
    head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {await api.secret()}\r\n"
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    writer.close()
    async with api.client() as http:
        assert (await http.get("/tasks")).json()["items"] == []


async def test_connections_beyond_the_bound_are_told_to_come_later() -> None:
    async with an_api(api={"max_connections": 10}) as api:
        host, port = api.url.removeprefix("http://").split(":")
        writers = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(10)]
        async with api.nobody() as nobody:
            assert (await nobody.get("/livez")).status_code == 503
        for writer in writers:
            writer.close()


class Pieces:
    """A body that is sent up to its last byte, and ended when it is told to."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.sent, self.end = asyncio.Event(), asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._raw[:-1]
        self.sent.set()
        await self.end.wait()
        yield self._raw[-1:]


async def test_bodies_beyond_the_room_for_them_are_told_to_come_later(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_state, "MOST_HELD_BYTES", 1000)
    raw = json.dumps({"type": "email", "payload": {"text": "x" * 600}}).encode()
    first = Pieces(raw)
    async with api.client() as http, api.client() as other, asyncio.TaskGroup() as group:
        slow = group.create_task(http.post("/tasks", content=first, headers={"Content-Type": "application/json"}))
        await first.sent.wait()
        async with asyncio.timeout(60):
            while not api.server.state.held_bytes:
                await other.get("/tasks")
        refused = await other.post("/tasks", content=raw)
        first.end.set()
        assert (await slow).status_code == 201
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_bodies")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await other.post("/tasks", content=raw)).status_code == 201, "there is room again"


async def test_a_large_body_is_parsed_beside_the_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[bool] = []

    def parse(raw: bytes, wanted: Any, **bounds: int) -> Any:
        places.append(threading.current_thread() is threading.main_thread())
        return http_body.parse_body(raw, wanted, **bounds)

    monkeypatch.setattr(endpoint, "parse_body", parse)
    async with api.client() as http:
        for number in (1, 3):
            tasks = [{"type": "email", "payload": {"text": "x" * 200_000}}] * number
            assert (await http.post("/tasks:batch", json={"tasks": tasks})).status_code == 201
    assert places == [True, False]


async def test_a_batch_of_too_many_values_is_refused(api: Api) -> None:
    async with api.client() as http:
        answer = await http.post("/tasks:batch", content=b'{"tasks":[' + b"[]," * 200_000 + b"[]]}")
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
