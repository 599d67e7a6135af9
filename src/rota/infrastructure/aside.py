"""A thread with an event loop of its own, for what must go on while the loop that started it is held up."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from rota.infrastructure.event_loop import new_event_loop

JOIN_S = 2.0

log = structlog.get_logger(__name__)


class OwnLoop:
    """Runs one coroutine. To be started and closed by the same thread, once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._owner = 0
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._owner = threading.get_ident()
        self._task = task = new_event_loop().create_task(main())
        # A daemon: it must not keep a program alive that ends without closing it.
        self._thread = threading.Thread(target=_serve, args=(task,), name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._task is None or self._thread is None:
            return  # it was never started
        with suppress(RuntimeError):  # it has ended by itself
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            log.error("thread.left_behind", name=self._name)

    def read_stack(self) -> str:
        frame = sys._current_frames().get(self._owner)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


def _serve(task: "asyncio.Task[None]") -> None:
    loop = task.get_loop()
    asyncio.set_event_loop(loop)
    try:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
