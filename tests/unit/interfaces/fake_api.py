"""A server that answers what a test says, in place of the network below the client."""

from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest

from tests.unit.client.dial import TASK, problem

Answer = httpx2.Response | Callable[[httpx2.Request], httpx2.Response] | dict[str, Any] | list[Any]

WORKER = {
    "id": "9",
    "name": "pod-1",
    "address": "host",
    "capacity": 10,
    "load": 3,
    "types": ["email", "report"],
    "weight": 1,
    "labels": {"zone": "a"},
    "draining": False,
    "alive": True,
    "registered_at": "2030-06-01T12:00:00Z",
    "seen_at": "2030-06-01T12:00:05Z",
    "retired_at": None,
}
CONFIG = {
    "type": "email",
    "tenant": "default",
    "name": "",
    "description": "",
    "executor": {"type": "local"},
    "timeout_seconds": 300,
    "retry": {"max_retries": 3},
    "priority": 0,
    "max_concurrent": None,
    "rate_per_second": None,
    "payload": {},
    "schedule": None,
    "next_fire_at": None,
    "enabled": True,
    "revision": 2,
    "created_at": "2030-06-01T12:00:00Z",
    "updated_at": "2030-06-01T12:00:00Z",
}
PREVIEW = {
    "type": "email",
    "schedule": {"cron": "0 9 * * *", "zone": "UTC"},
    "in_english": "at 09:00 (UTC)",
    "in_chinese": "在 09:00 (UTC)",
    "upcoming": ["2030-06-02T09:00:00Z"],
    "recent": ["2030-06-01T09:00:00Z"],
    "effects": [
        {"fire_at": "2030-06-02T09:00:00Z", "effect": "skipped", "detail": "in holidays", "moved_from": None},
        {
            "fire_at": "2030-06-01T09:00:00Z",
            "effect": "moved",
            "detail": "in holidays",
            "moved_from": "2030-05-31T09:00:00Z",
        },
    ],
    "next_fire_at": "2030-06-02T09:00:00Z",
    "runs": 3,
}
FORECAST = {
    "begin": "2030-06-01T00:00:00Z",
    "end": "2030-06-02T00:00:00Z",
    "runs": 3,
    "buckets": [
        {"begin": "2030-06-01T00:00:00Z", "runs": 3, "work_seconds": 90.0, "busy": 1.25, "complete": True},
        {"begin": "2030-06-01T08:00:00Z", "runs": 2, "work_seconds": 60.0, "busy": 0.5, "complete": False},
        {"begin": "2030-06-01T16:00:00Z", "runs": 0, "work_seconds": 0.0, "busy": 0.0, "complete": False},
    ],
    "types": [{"type": "fast", "runs": 3, "first": None, "last": None, "run_seconds": None, "complete": False}],
    "unforeseen": ["waits"],
    "complete": False,
    "reasons": {"waits": "waits for the end of each run"},
    "known_until": "2030-06-01T09:00:00Z",
    "left_out": ["zeta"],
}
CALENDAR = {
    "name": "holidays",
    "tenant": "default",
    "description": "",
    "origin": "the holidays of DE",
    "years": [2029, 2031],
    "revision": 1,
    "created_at": "2030-06-01T12:00:00Z",
    "updated_at": "2030-06-01T12:00:00Z",
    "dates": ["2030-12-25"],
    "windows": [],
    "periods": [],
    "business_days": None,
}
OCCURRENCE = {
    "type": "email",
    "fire_at": "2030-06-01T09:00:00Z",
    "status": "SKIPPED",
    "task_id": None,
    "reason": "overlap",
    "since": None,
}
TOKEN = {
    "id": "5",
    "name": "ci",
    "role": "operator",
    "tenant": "default",
    "created_at": "2030-06-01T12:00:00Z",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
}
CLUSTER = {
    "leader": "pod-1-77",
    "term": 4,
    "nodes": [
        {
            "id": "pod-1-77",
            "roles": ["api", "scheduler"],
            "is_leader": True,
            "version": "0.1.0",
            "seen_at": "2030-06-01T12:00:05Z",
        }
    ],
    "store": "sqlite",
    "coordinator": "memory",
    "version": "0.1.0",
    "now": "2030-06-01T12:00:06Z",
    "store_seconds": 0.002,
    "coordinator_seconds": 0.001,
    "coordinator_answers": True,
}
SETTINGS = {
    "node": "pod-1-77",
    "items": [
        {
            "key": "worker.capacity",
            "value": 20,
            "default": 10,
            "source": "file",
            "origin": "rota.yaml:3",
            "live": True,
            "restart_needed": False,
            "text": "The most tasks at once.",
        },
        {
            "key": "store.url",
            "value": "mysql://rota:***@db/rota",
            "default": "sqlite:///.rota/rota.db",
            "source": "environment",
            "origin": "environment ROTA_STORE__URL",
            "live": False,
            "restart_needed": True,
            "text": "Where the tasks are.",
        },
        {
            "key": "report.days",
            "value": 730,
            "default": 730,
            "source": "default",
            "origin": "default",
            "live": False,
            "restart_needed": False,
            "text": "How many days.",
        },
    ],
}
DURATIONS = {
    "count": 10,
    **{f"{name}_seconds": 1.5 for name in ("mean", "min", "max", "p50", "p95", "p99")},
}
NO_DURATIONS = {
    "count": 0,
    **{f"{name}_seconds": None for name in ("mean", "min", "max", "p50", "p95", "p99")},
}
FIGURES = {
    "submitted": 10,
    "succeeded": 8,
    "failed": 1,
    "timed_out": 1,
    "cancelled": 0,
    "quarantined": 0,
    "attempts": 12,
    "retries": 2,
    "success_rate": 0.8,
    "run": DURATIONS,
    "wait": NO_DURATIONS,
}
REPORT: dict[str, Any] = {
    "begin": "2030-05-31T16:00:00Z",
    "end": "2030-06-02T16:00:00Z",
    "by": "day",
    "zone": "Asia/Shanghai",
    "complete_until": None,
    "items": [
        {"start": "2030-05-31T16:00:00Z", "end": "2030-06-01T16:00:00Z", "type": "email", **FIGURES},
        {"start": "2030-06-01T16:00:00Z", "end": "2030-06-02T16:00:00Z", "type": "email", **FIGURES, "succeeded": 98},
    ],
    "types": [{"type": "email", **FIGURES}],
    "totals": FIGURES,
    "slowest": ["email"],
    "most_failing": ["email"],
}
STATS = {
    "tasks": {"PENDING": 2, "SUCCESS": 40},
    "created_per_second": 1.5,
    "completed_per_second": 1,
    "failed_per_second": 0,
    "window_seconds": 60,
}
QUEUES = {
    "items": [{"priority": 5, "ready": 2, "oldest_age_seconds": 1.25}],
    "delayed": 1,
    "assigned": 0,
    "running": 3,
}
QUEUE_TYPES = {
    "items": [
        {"type": "email", "ready": 2, "delayed": 1, "blocked": 0, "running": 3, "oldest_age_seconds": 1.25},
    ],
    "complete": False,
    "set_aside": 7,
}


def page(*items: Any, cursor: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": cursor}


def task_like(**changes: Any) -> dict[str, Any]:
    return {**TASK, **changes}


class FakeApi:
    """Answers by method and path below `/api/v1`; anything else is not found. Finds every definition in order that it
    is asked to check, unless told otherwise."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.sent: list[httpx2.Request] = []
        self.checked: list[httpx2.Request] = []  # of definitions that were only to be checked

    def on(self, route: str, answer: Answer) -> None:
        self.answers[route] = answer

    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(request.content) for request in self.sent if request.content]

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        route = f"{request.method} {request.url.path.removeprefix('/api/v1')}"
        if route.endswith(":check"):
            self.checked.append(request)
            self.answers.setdefault(route, CONFIG)
        else:
            self.sent.append(request)
        answer = self.answers.get(route, problem(404, "task_not_found", detail="there is no such task"))
        if isinstance(answer, dict | list):
            return httpx2.Response(200, json=answer)
        made = answer if isinstance(answer, httpx2.Response) else answer(request)
        return httpx2.Response(made.status_code, headers=made.headers, content=made.content)


def install(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Let every client of this process talk to it."""
    api = FakeApi()
    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", lambda _self, request: api.handle(request))
    for name in ("ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return api
