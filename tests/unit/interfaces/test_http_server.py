"""The server inside a process: how it waits, and how it is told to end."""

import asyncio

import uvicorn
from starlette.types import Receive, Scope, Send

from rota.interfaces.http.server import DATE_EVERY, Server, plain_config
from tests.support.virtual import pass_time, virtually


class Counting(Server):
    """Counts its looks."""

    looks = 0

    async def on_tick(self, counter: int) -> bool:
        self.looks += 1
        return await super().on_tick(counter)


async def _answer_nothing(
    _: Scope,
    _receive: Receive,
    _send: Send,  # fixed signature: ASGI
) -> None:
    """Nobody asks."""


def a_config() -> uvicorn.Config:
    config = plain_config(_answer_nothing)
    config.load()
    return config


@virtually
async def test_it_wakes_only_to_put_the_date_right() -> None:
    server = Counting(a_config())
    serving = asyncio.ensure_future(server.main_loop())
    await pass_time(10.5 * DATE_EVERY.total_seconds())
    assert server.looks == 11
    server.end()
    await serving


@virtually
async def test_it_ends_as_soon_as_it_is_told_to() -> None:
    server = Counting(a_config())
    serving = asyncio.ensure_future(server.main_loop())
    await pass_time()
    told_at = asyncio.get_running_loop().time()
    server.end()
    await serving
    assert asyncio.get_running_loop().time() == told_at
