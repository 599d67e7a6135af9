"""Frames of a stream as they come, until its source ends, the server stops, or its token is no longer good."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from rota.domain.errors import UnavailableError
from rota.interfaces.http.sse import LOOK_AT_TOKEN, give_up
from rota.interfaces.operations.operation import Frame


async def follow(
    frames: AsyncIterator[Frame], *, stopping: asyncio.Event, check_token: Callable[[], Awaitable[object]]
) -> AsyncGenerator[Frame, None]:
    """Raises `UnavailableError` when the server stops, and what `check_token` raises."""
    loop, stopped = asyncio.get_running_loop(), asyncio.create_task(stopping.wait())
    upcoming = asyncio.ensure_future(anext(frames))
    look_at = loop.time() + LOOK_AT_TOKEN.total_seconds()
    try:
        while not stopped.done():
            wait = max(look_at - loop.time(), 0)
            await asyncio.wait({upcoming, stopped}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            if upcoming.done():
                yield upcoming.result()
                upcoming = asyncio.ensure_future(anext(frames))
            if loop.time() >= look_at:
                await check_token()
                look_at = loop.time() + LOOK_AT_TOKEN.total_seconds()
        raise UnavailableError("the server stops; go on at another node, after the last message that you have")
    except StopAsyncIteration:
        return
    finally:
        stopped.cancel()
        await give_up(upcoming)
