"""Server-sent events: frames as they come, a sign of life while none do, and a clean end.

A stream ends when its source does, when the server stops, or when its token is no longer good. The client reads at its
own pace: a slow one holds up nothing but its own subscription, whose buffer is bounded and which tells what was missed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from rota.domain.errors import RotaError, UnauthenticatedError
from rota.interfaces.operations.operation import Frame

HEARTBEAT = timedelta(seconds=15)  # less than what proxies take for a dead connection
LOOK_AT_TOKEN = timedelta(seconds=5)
RECONNECT = timedelta(seconds=2)
MEDIA_TYPE = "text/event-stream"
SIGN_OF_LIFE = b": still here\n\n"


class SseStream:
    """One stream to one client."""

    def __init__(
        self, frames: AsyncIterator[Frame], *, stopping: asyncio.Event, check_token: Callable[[], Awaitable[object]]
    ) -> None:
        self._frames = frames
        self._stopping = stopping
        self._check_token = check_token

    def response(self) -> StreamingResponse:
        headers = {"X-Accel-Buffering": "no"}  # nginx would keep the frames until it has some more
        return StreamingResponse(self._run(), media_type=MEDIA_TYPE, headers=headers)

    async def _run(self) -> AsyncIterator[bytes]:
        yield f"retry: {RECONNECT // timedelta(milliseconds=1)}\n\n".encode()
        stopping = asyncio.create_task(self._stopping.wait())
        upcoming = asyncio.ensure_future(anext(self._frames))
        try:
            async for frame in self._pump(upcoming, stopping):
                yield frame
        finally:
            stopping.cancel()

    async def _pump(self, upcoming: asyncio.Future[Any], stopping: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        look_at, beat_at = loop.time() + LOOK_AT_TOKEN.total_seconds(), loop.time() + HEARTBEAT.total_seconds()
        try:
            while not stopping.done():
                wait = max(min(look_at, beat_at) - loop.time(), 0)
                await asyncio.wait({upcoming, stopping}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    yield write_frame(upcoming.result())
                    upcoming = asyncio.ensure_future(anext(self._frames))
                    beat_at = loop.time() + HEARTBEAT.total_seconds()
                elif loop.time() >= beat_at:
                    yield SIGN_OF_LIFE
                    beat_at = loop.time() + HEARTBEAT.total_seconds()
                if loop.time() >= look_at:
                    await self._check_token()
                    look_at = loop.time() + LOOK_AT_TOKEN.total_seconds()
            yield b": the server stops\n\n"
        except StopAsyncIteration:
            return
        except UnauthenticatedError:
            yield b": the token is no longer good\n\n"
        except RotaError as error:  # the client connects again, and goes on after what it had
            yield f": {error.code}\n\n".encode()
        finally:
            await give_up(upcoming)


async def give_up(upcoming: "asyncio.Future[Frame]") -> None:
    upcoming.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration, RotaError):
        await upcoming


def write_frame(frame: Frame) -> bytes:
    """One message. JSON has no line break, so one `data` line holds it."""
    head = f"id: {frame.id}\n" if frame.id is not None else ""
    return b"%bevent: %b\ndata: %b\n\n" % (head.encode(), frame.event.encode(), msgspec.json.encode(frame.body))
