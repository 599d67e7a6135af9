"""Calls to etcd that wait for an answer which will not come: given up before their deadline, and asked again where
that does no harm."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.priority import LEVELS
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.etcd.client import GIVEN_UP, Done, EtcdClient, EtcdOptions, _Stream
from rota.infrastructure.etcd.doubts import Waiting
from rota.infrastructure.etcd.ops import Op, get, only, put, scan, under
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_backend import make_entries, make_ids
from tests.support.fake_etcd import FakeMember, a_fake_member
from tests.support.marked import mark_as_cancelled
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S, PATIENT_ETCD
from tests.support.proxy import FaultyProxy
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.process import free_port

WITHIN = EtcdOptions(answer_within=timedelta(seconds=5))  # what is given up is so after a third of it at most
GONE = f"127.0.0.1:{free_port()}"  # a member beside the one that is asked: one alone is never doubted


@asynccontextmanager
async def a_client(*members: str, options: EtcdOptions = WITHIN) -> AsyncIterator[EtcdClient]:
    client = EtcdClient(f"etcd://{','.join(members)}", options, unavailable=CoordinatorUnavailableError)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with a_fake_member() as running:
        yield running


async def test_a_write_that_was_handed_to_a_leader_that_died_is_given_up_when_there_is_another(
    member: FakeMember,
) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE) as client:
        await client.write([put("/x")])
        member.is_waiting = True
        writing = asyncio.create_task(client.write([put("/x")]))
        await member.asked.wait()
        member.term = 2
        with pytest.raises(CoordinatorUnavailableError, match=GIVEN_UP):
            await writing


async def test_a_write_at_a_member_that_has_lost_its_leader_is_given_up(member: FakeMember) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE) as client:
        member.is_waiting, member.leader = True, 0
        with pytest.raises(CoordinatorUnavailableError, match=GIVEN_UP):
            await client.write([put("/x")])


async def test_who_looks_cancelled_from_before_is_told_that_a_write_was_given_up(member: FakeMember) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE) as client:
        await mark_as_cancelled()
        member.is_waiting, member.leader = True, 0
        with pytest.raises(CoordinatorUnavailableError, match=GIVEN_UP):
            await client.write([put("/x")])


async def test_what_may_be_repeated_is_asked_again(member: FakeMember) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE) as client:
        member.is_waiting, member.leader, member.heals_after = True, 0, 1
        assert (await client.write([put("/x")], may_repeat=True)).is_met


async def test_a_write_that_is_refused_for_want_of_a_leader_is_asked_again_and_done_once(member: FakeMember) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE, options=PATIENT_ETCD) as client:
        member.refusals = 3
        assert (await client.write([put("/x")])).is_met
        assert (member.refusals, member.done) == (0, 1)


async def test_a_slow_answer_of_a_member_that_is_well_is_waited_for(member: FakeMember) -> None:
    async with a_client(f"127.0.0.1:{member.port}", GONE) as client:
        await client.write([put("/x")])
        member.is_waiting, member.heals_after = True, 2
        assert (await client.write([put("/x")])).is_met


async def test_who_is_connected_to_a_silent_member_is_told_and_watches_elsewhere(etcd_server: EtcdServer) -> None:
    key = f"/{fresh_name('doubts')}/key"
    async with (
        FaultyProxy("127.0.0.1", etcd_server.port) as proxy,
        a_client(f"127.0.0.1:{proxy.port}", f"127.0.0.1:{etcd_server.port}") as client,
    ):
        now = (await client.read([get(key)])).revision
        await client._endpoints._links[0].channel.channel_ready()  # the other one may have been connected sooner
        with pytest.raises(CoordinatorUnavailableError, match=GIVEN_UP):
            async with asyncio.timeout(PATIENCE_S), client.watch(only(key), after=now) as events:
                proxy.blackhole()
                assert not (await client.read([get(key)])).answers[0].range.kvs, "asked elsewhere"
                await anext(events)
        proxy.heal()


async def test_what_a_take_without_an_answer_took_is_put_back_at_once(etcd_server: EtcdServer) -> None:
    async with (
        FaultyProxy("127.0.0.1", etcd_server.port) as proxy,
        a_client(f"127.0.0.1:{proxy.port}", f"localhost:{proxy.port}", options=PATIENT_ETCD) as client,
    ):
        queue = etcd_coordinator(client, SystemClock(), prefix=fresh_name("doubts")).queue
        ids = make_ids(3)
        await queue.push(make_entries(ids))
        one = str(ids[0]).encode()  # which only the deletion names, and the answer to it
        swallowed = proxy.drop_reply_after(one, reply=one)
        with pytest.raises(CoordinatorUnavailableError):
            await queue.take(3, order=LEVELS)
        assert swallowed.is_set()
        assert set((await queue.take(3, order=LEVELS)).task_ids) == set(ids)


class _Stuck:
    """A call of the library that was cancelled while it was written to."""

    async def write(self, _message: object) -> None:
        raise asyncio.CancelledError

    def cancel(self) -> None: ...


async def test_a_stream_that_is_given_up_while_it_is_written_to_cancels_nobody() -> None:
    stream = _Stream(_Stuck, asyncio.timeout(None))
    stream.waiting = Waiting(stream, since=0.0, term=0)
    with pytest.raises(asyncio.CancelledError):
        await stream.write(b"")  # the caller's own end
    stream.waiting.give_up()
    with pytest.raises(asyncio.InvalidStateError, match=GIVEN_UP):
        await stream.write(b"")


async def test_what_was_passed_on_and_taken_without_an_answer_is_put_back_at_once(etcd_server: EtcdServer) -> None:
    async with (
        FaultyProxy("127.0.0.1", etcd_server.port) as proxy,
        a_client(f"127.0.0.1:{proxy.port}", f"localhost:{proxy.port}", options=PATIENT_ETCD) as client,
    ):
        coordinator = etcd_coordinator(client, SystemClock(), prefix=fresh_name("doubts"))
        ids = make_ids(3)
        assert coordinator.assistance is not None
        await coordinator.assistance.pass_on(ids)
        await coordinator.queue.wait_for_work(timedelta(0))
        one = str(ids[0]).encode()  # which only the deletion names, and the answer to it
        swallowed = proxy.drop_reply_after(one, reply=one)
        with pytest.raises(CoordinatorUnavailableError):
            await coordinator.assistance.take_passed(3)
        assert swallowed.is_set()
        assert await coordinator.queue.wait_for_work(timedelta(0))
        assert await coordinator.assistance.take_passed(3) == ids


class Late(EtcdClient):
    """The answer to the next write is lost before it is done: it is done after the one that follows."""

    is_late = False
    _late: Sequence[Op] = ()

    async def write(self, ops: Sequence[Op], **how: Any) -> Done:
        if self.is_late:
            self.is_late, self._late = False, ops
            raise CoordinatorUnavailableError("etcd: no answer in time")
        done = await super().write(ops, **how)
        late, self._late = self._late, ()
        if late:
            await super().write(late)
        return done


async def test_what_is_taken_after_it_was_put_back_is_not_lost(etcd_server: EtcdServer) -> None:
    client = Late(f"etcd://127.0.0.1:{etcd_server.port}", PATIENT_ETCD, unavailable=CoordinatorUnavailableError)
    try:
        coordinator = etcd_coordinator(client, SystemClock(), prefix=fresh_name("doubts"))
        queued, passed = make_ids(3), make_ids(6)[3:]
        assert coordinator.assistance is not None
        await coordinator.queue.push(make_entries(queued))
        await coordinator.queue.push(make_entries(queued[:1]))  # as after trouble: it waits twice
        await coordinator.assistance.pass_on(passed)
        await coordinator.assistance.pass_on(passed[:1])
        client.is_late = True
        with pytest.raises(CoordinatorUnavailableError, match="no answer"):
            await coordinator.queue.take(4, order=LEVELS)
        client.is_late = True
        with pytest.raises(CoordinatorUnavailableError, match="no answer"):
            await coordinator.assistance.take_passed(4)
        assert list((await coordinator.queue.take(4, order=LEVELS)).task_ids) == queued
        assert await coordinator.assistance.take_passed(4) == passed
    finally:
        await client.close()


class Interrupted(EtcdClient):
    """Something is written right before the next write."""

    news: Op | None = None

    async def write(self, ops: Sequence[Op], **how: Any) -> Done:
        news, self.news = self.news, None
        if news is not None:
            await super().write([news])
        return await super().write(ops, **how)


async def test_no_more_is_taken_of_what_was_passed_on_than_was_asked_for(etcd_server: EtcdServer) -> None:
    """Another scheduler's clock is behind: what it passes on comes between what was there."""
    address, prefix = f"etcd://127.0.0.1:{etcd_server.port}", fresh_name("doubts")
    client = Interrupted(address, PATIENT_ETCD, unavailable=CoordinatorUnavailableError)
    try:
        assistance, ids = etcd_coordinator(client, SystemClock(), prefix=prefix).assistance, make_ids(3)
        assert assistance is not None
        await assistance.pass_on([ids[0], ids[2]])
        first = (await client.read([scan(under(EtcdKeys(prefix).passed), 1)])).answers[0].range.kvs[0].key.decode()
        client.news = put(f"{first.rpartition('_')[0]}_{ids[1]}")
        assert await assistance.take_passed(2) == ids[:2]
        assert await assistance.take_passed(2) == ids[2:]
    finally:
        await client.close()
