"""A server for `rota bench`, in place of the network below the client."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest
from rich.progress import Progress, TaskID

from rota.interfaces.cli.bench_run import LONE
from tests.unit.interfaces.fake_api import FakeApi, page, task_like


class Bench:
    """A server that runs what it is given: each task starts 10 ms after its creation and takes 20 ms."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.worker_id: Any = None
        self.tasks: list[dict[str, Any]] = []
        api.on("POST /tasks", lambda request: self._create(json.loads(request.content), status=201))
        api.on("POST /tasks:batch", self._create_many)
        api.on("POST /tasks:cancel", {"matched": 0, "changed": 0, "skipped": 0, "has_more": False})

    def _create(self, wish: dict[str, Any], *, status: int) -> httpx2.Response:
        number = len(self.tasks)
        made = task_like(
            id=str(number + 1),
            type="sample_noop",
            status="SUCCESS",
            metadata=wish["metadata"],
            worker_id=self.worker_id,
            created_at=moment(number),
            started_at=moment(number, 10),
            completed_at=moment(number, 30),
        )
        self.tasks.append(made)
        self.api.on(f"GET /tasks/{made['id']}", made)
        newest = self.tasks[: LONE - 1 : -1]
        self.api.on("GET /tasks", page(*newest))
        return httpx2.Response(status, json=made)

    def _create_many(self, request: httpx2.Request) -> httpx2.Response:
        wishes = json.loads(request.content)["tasks"]
        answers = [self._create(wish, status=201) for wish in wishes]
        return httpx2.Response(201, json={"ids": [json.loads(answer.content)["id"] for answer in answers]})


def moment(second: int, milliseconds: int = 0) -> str:
    return f"2030-06-01T12:{second // 60:02d}:{second % 60:02d}.{milliseconds:03d}000Z"


def sent_to(api: FakeApi, path: str) -> list[Any]:
    return [msgspec.json.decode(sent.content) for sent in api.sent if sent.url.path.endswith(path)]


def watch_bars(monkeypatch: pytest.MonkeyPatch, shown: list[tuple[str, int, str]]) -> None:
    """Each state of a bar, with the rate beside it, as somebody at a terminal sees it."""
    update = Progress.update

    def update_and_tell(bars: Progress, bar: TaskID, **changes: Any) -> None:
        update(bars, bar, **changes)
        if "rate" in changes:
            shown.append((bars.tasks[bar].description, int(bars.tasks[bar].completed), changes["rate"]))

    monkeypatch.setattr(Progress, "update", update_and_tell)


def keep_waiting(bench: Bench) -> None:
    """Every task of this server stays where it is."""
    create = bench._create

    def create_waiting(wish: dict[str, Any], *, status: int) -> httpx2.Response:
        answer = create(wish, status=status)
        waiting = {**json.loads(answer.content), "status": "PENDING", "started_at": None, "completed_at": None}
        bench.api.on(f"GET /tasks/{waiting['id']}", waiting)
        return httpx2.Response(status, json=waiting)

    bench._create = create_waiting  # type: ignore[method-assign]


def count(changed: int) -> httpx2.Response:
    return httpx2.Response(200, json={"matched": changed, "changed": changed, "skipped": 0, "has_more": False})


def interrupt(_request: httpx2.Request) -> httpx2.Response:
    raise KeyboardInterrupt


def stop_at(bench: Bench, route: str, *, answer: Callable[[httpx2.Request], httpx2.Response]) -> None:
    """From the first batch on, this is what the server answers there."""
    create_many = bench._create_many

    def answer_late(request: httpx2.Request) -> httpx2.Response:
        made = create_many(request)
        bench.api.on(route, answer)
        return made

    bench.api.on("POST /tasks:batch", answer if route == "POST /tasks:batch" else answer_late)
