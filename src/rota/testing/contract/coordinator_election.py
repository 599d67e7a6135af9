"""The contract of `Election`."""

import asyncio

import pytest

from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    NODE_A,
    NODE_B,
    NODE_C,
    CoordinatorBackend,
    begin,
    outlast,
)
from rota.testing.contract.in_time import in_time


@pytest.mark.asyncio
class TestElection:
    async def test_only_one_of_two_nodes_wins(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        assert await a.election.campaign(NODE_A, LONG) is not None
        assert await b.election.campaign(NODE_B, LONG) is None

    async def test_many_who_campaign_at_once_have_one_winner(self, backend: CoordinatorBackend) -> None:
        nodes = [await backend.connect() for _ in range(3)]
        names = (NODE_A, NODE_B, NODE_C)
        tries = [node.election.campaign(name, LONG) for node, name in zip(nodes, names, strict=True) for _ in range(5)]
        leases = await asyncio.gather(*tries)
        assert sum(lease is not None for lease in leases) == 1

    async def test_a_leader_wins_no_second_lease_beside_its_first(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        await a.election.campaign(NODE_A, LONG)
        assert await a.election.campaign(NODE_A, LONG) is None

    async def test_an_expired_lease_lets_another_node_win(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.election.campaign(NODE_A, backend.tick)
        await backend.wait(backend.tick * 2)
        assert await b.election.campaign(NODE_B, LONG) is not None

    async def test_a_renewed_lease_outlives_its_first_ttl(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()

        async def renew() -> bool:
            lease = await a.election.campaign(NODE_A, backend.tick * 4)
            return lease is not None and await a.election.renew(NODE_A, lease, ttl=LONG)

        assert await in_time(renew)
        await backend.wait(backend.tick * 5)
        assert await b.election.campaign(NODE_B, LONG) is None

    async def test_a_renewal_may_be_repeated(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        assert [await a.election.renew(NODE_A, lease, ttl=LONG) for _ in range(2)] == [True, True]

    async def test_an_expired_lease_cannot_be_renewed(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        lease = await a.election.campaign(NODE_A, backend.tick)
        assert lease is not None
        await backend.wait(backend.tick * 2)
        assert not await a.election.renew(NODE_A, lease, ttl=LONG)

    async def test_a_renewal_does_not_prolong_the_lease_of_a_successor(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        old = await a.election.campaign(NODE_A, backend.tick)
        assert old is not None
        await backend.wait(backend.tick * 2)
        await b.election.campaign(NODE_B, backend.tick)
        assert not await a.election.renew(NODE_A, old, ttl=LONG)
        await backend.wait(backend.tick * 2)
        assert await b.election.find_leader() is None

    async def test_a_node_cannot_renew_with_the_number_of_another(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        assert not await a.election.renew(NODE_B, lease, ttl=LONG)

    async def test_a_node_cannot_renew_with_an_older_number(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        old = await a.election.campaign(NODE_A, LONG)
        assert old is not None
        await a.election.resign(NODE_A, old)
        new = await a.election.campaign(NODE_A, LONG)
        assert not await a.election.renew(NODE_A, old, ttl=LONG), f"lease {new} was renewed by lease {old}"

    async def test_a_resignation_lets_another_node_win_at_once(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        await a.election.resign(NODE_A, lease)
        assert await b.election.campaign(NODE_B, LONG) is not None

    async def test_a_late_resign_does_not_end_a_newer_lease(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        old = await a.election.campaign(NODE_A, backend.tick)
        assert old is not None
        await backend.wait(backend.tick * 2)
        new = await a.election.campaign(NODE_A, LONG)
        await a.election.resign(NODE_A, old)
        assert await b.election.campaign(NODE_B, LONG) is None, f"lease {new} was ended by lease {old}"

    async def test_a_node_cannot_resign_for_another(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        await b.election.resign(NODE_B, lease)
        assert await a.election.renew(NODE_A, lease, ttl=LONG)

    async def test_lease_numbers_grow(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        leases = []
        for _ in range(5):
            lease = await a.election.campaign(NODE_A, LONG)
            assert lease is not None
            await a.election.resign(NODE_A, lease)
            leases.append(lease)
        assert leases == sorted(set(leases))

    async def test_lease_numbers_grow_across_a_lost_memory(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        before = await a.election.campaign(NODE_A, LONG)
        assert before is not None
        await backend.forget()
        after = await b.election.campaign(NODE_B, LONG)
        assert after is not None
        assert after > before

    async def test_a_lost_memory_ends_the_lease(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        await backend.forget()
        assert not await a.election.renew(NODE_A, lease, ttl=LONG)

    async def test_everyone_can_see_who_leads(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        assert await b.election.find_leader() is None
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        assert await b.election.find_leader() == NODE_A
        await a.election.resign(NODE_A, lease)
        assert await b.election.find_leader() is None

    async def test_nobody_is_seen_to_lead_with_an_expired_lease(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        await a.election.campaign(NODE_A, backend.tick)
        await backend.wait(backend.tick * 2)
        assert await a.election.find_leader() is None

    async def test_a_resignation_wakes_every_standby(self, backend: CoordinatorBackend) -> None:
        a, b, c = [await backend.connect() for _ in range(3)]
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        standbys = [await begin(backend, node.election.wait_for_vacancy(LONG)) for node in (b, c)]
        await a.election.resign(NODE_A, lease)
        assert await asyncio.gather(*standbys) == [True, True]

    async def test_a_late_resign_wakes_nobody(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        await a.election.resign(NODE_A, lease - 1)
        assert not await outlast(backend, b.election.wait_for_vacancy(backend.tick))

    async def test_waiting_for_a_vacancy_ends_while_the_leader_stays(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.election.campaign(NODE_A, LONG)
        assert not await outlast(backend, b.election.wait_for_vacancy(backend.tick))
        assert not await b.election.wait_for_vacancy(AT_ONCE)

    async def test_a_vacancy_that_was_filled_wakes_no_later_standby(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        lease = await a.election.campaign(NODE_A, LONG)
        assert lease is not None
        await a.election.resign(NODE_A, lease)
        await b.election.campaign(NODE_B, LONG)
        assert not await a.election.wait_for_vacancy(AT_ONCE)
