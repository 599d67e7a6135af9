"""Logins to etcd: asked for once by many calls, renewed when they are over, and not waited for at a silent member."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.etcd.client import EtcdClient, EtcdOptions
from rota.infrastructure.etcd.ops import get, is_put, only, put
from tests.support.fake_etcd import FakeMember, a_fake_member
from tests.support.patience import PATIENT_ETCD

SOON = timedelta(seconds=20)


@asynccontextmanager
async def a_client(*members: FakeMember, options: EtcdOptions = PATIENT_ETCD) -> AsyncIterator[EtcdClient]:
    servers = ",".join(f"127.0.0.1:{member.port}" for member in members)
    client = EtcdClient(f"etcd://me:secret@{servers}", options, unavailable=CoordinatorUnavailableError)
    try:
        yield client
    finally:
        await client.close()


async def test_calls_that_begin_together_log_in_once() -> None:
    async with a_fake_member() as member, a_client(member) as client:

        async def call_together() -> None:
            await asyncio.gather(*(client.read([get("/x")]) for _ in range(10)))

        await call_together()
        assert member.logins == 1
        member.token = "another since rights were changed"
        await call_together()
        assert member.logins == 2, "who hears late that its token was over uses the one that came after it"


@asynccontextmanager
async def a_client_of_two(options: EtcdOptions = PATIENT_ETCD) -> AsyncIterator[tuple[EtcdClient, list[FakeMember]]]:
    """Connected to both members; the first is asked next, and lets whoever logs in again wait."""
    async with (
        a_fake_member() as one,
        a_fake_member() as other,
        a_client(one, other, options=options) as client,
    ):
        await client.read([get("/x")])
        await asyncio.gather(*(link.channel.channel_ready() for link in client._endpoints._links))
        one.token, one.is_login_waiting = "another since rights were changed", True
        one.logins = other.logins = 0
        yield client, [one, other]


async def test_one_silent_member_holds_up_no_login_to_another() -> None:
    async with a_client_of_two(EtcdOptions(answer_within=timedelta(seconds=3))) as (client, members):
        done = await asyncio.gather(*(client.write([put("/x")]) for _ in range(10)))
        assert all(one.is_met for one in done), "nothing was asked of the silent one, so it is asked elsewhere"
        assert [one.logins for one in members] == [1, 1]


@pytest.mark.parametrize("call", ["read", "watch"])
async def test_a_member_that_lets_a_login_wait_is_left_for_another(call: str) -> None:
    async with a_client_of_two() as (client, [one, other]):
        client._login._token = None
        watch = partial(client.wait_for, only("/x"), after=0, wait=SOON, is_wanted=is_put)
        ask: Callable[[], Coroutine[Any, Any, object]] = watch if call == "watch" else partial(client.read, [get("/x")])
        calling = asyncio.create_task(ask())
        await one.asked.wait()
        calling.cancel()  # as by its deadline
        await asyncio.gather(calling, return_exceptions=True)
        done = other.done
        await client.read([get("/x")])
        assert other.done == done + 1


async def test_a_login_that_is_over_at_the_next_try_is_renewed_as_well() -> None:
    async with a_fake_member() as member, a_client(member) as client:
        await client.write([put("/x")])
        member.refusals, member.token = 1, "another since rights were changed"
        assert (await client.write([put("/x")])).is_met
        assert (member.logins, member.done) == (2, 2)
