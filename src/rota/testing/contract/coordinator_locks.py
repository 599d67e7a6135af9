"""The contract of `Locks`."""

import asyncio

import pytest

from rota.domain.errors import InvalidError
from rota.testing.contract.coordinator_backend import LONG, NODE_A, CoordinatorBackend
from rota.testing.contract.in_time import in_time

A, B = "owner-a", "owner-b"
NAME, OTHER_NAME = "nightly-import", "Nightly-Import"


@pytest.mark.asyncio
class TestLocks:
    async def test_only_one_of_two_owners_takes_a_lock(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        assert await a.locks.take(NAME, A, ttl=LONG) is not None
        assert await b.locks.take(NAME, B, ttl=LONG) is None

    async def test_many_who_take_a_lock_at_once_have_one_winner(self, backend: CoordinatorBackend) -> None:
        nodes = [await backend.connect() for _ in range(3)]
        tries = [
            node.locks.take(NAME, f"owner-{number}-{again}", ttl=LONG)
            for number, node in enumerate(nodes)
            for again in range(5)
        ]
        fences = await asyncio.gather(*tries)
        assert sum(fence is not None for fence in fences) == 1

    async def test_locks_of_other_names_are_others(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        assert await a.locks.take(NAME, A, ttl=LONG) is not None
        assert await b.locks.take(OTHER_NAME, B, ttl=LONG) is not None

    async def test_no_name_is_in_the_way_of_the_leader(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        for name in ("scheduler", "leader", "named", "last"):
            assert await a.locks.take(name, A, ttl=LONG) is not None
        assert await a.election.campaign(NODE_A, LONG) is not None
        assert await a.election.find_leader() == NODE_A

    async def test_a_lock_that_ran_out_is_free(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.locks.take(NAME, A, ttl=backend.tick)
        await backend.wait(backend.tick * 2)
        assert await b.locks.take(NAME, B, ttl=LONG) is not None

    async def test_a_renewed_lock_outlives_its_first_ttl(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()

        async def renew() -> bool:
            fence = await a.locks.take(NAME, A, ttl=backend.tick * 4)
            return fence is not None and await a.locks.renew(NAME, A, fence=fence, ttl=LONG)

        assert await in_time(renew)
        await backend.wait(backend.tick * 5)
        assert await b.locks.take(NAME, B, ttl=LONG) is None

    async def test_a_renewal_may_be_repeated_and_keeps_the_fence(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        fence = await a.locks.take(NAME, A, ttl=LONG)
        assert fence is not None
        assert [await a.locks.renew(NAME, A, fence=fence, ttl=ttl) for ttl in (LONG, LONG, LONG * 2)] == [True] * 3
        assert await a.locks.release(NAME, A, fence=fence)

    async def test_a_lock_that_ran_out_is_neither_renewed_nor_released(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        fence = await a.locks.take(NAME, A, ttl=backend.tick)
        assert fence is not None
        await backend.wait(backend.tick * 2)
        assert not await a.locks.renew(NAME, A, fence=fence, ttl=LONG)
        assert not await a.locks.release(NAME, A, fence=fence)

    async def test_whoever_comes_late_leaves_the_successor_alone(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        old = await a.locks.take(NAME, A, ttl=backend.tick)
        assert old is not None
        await backend.wait(backend.tick * 2)
        new = await b.locks.take(NAME, B, ttl=LONG)
        assert new is not None
        assert not await a.locks.renew(NAME, A, fence=old, ttl=LONG)
        assert not await a.locks.release(NAME, A, fence=old)
        assert await b.locks.renew(NAME, B, fence=new, ttl=LONG)

    async def test_a_fence_is_of_no_use_to_another_owner(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        fence = await a.locks.take(NAME, A, ttl=LONG)
        assert fence is not None
        assert not await b.locks.renew(NAME, B, fence=fence, ttl=LONG)
        assert not await b.locks.release(NAME, B, fence=fence)
        assert await a.locks.renew(NAME, A, fence=fence, ttl=LONG)

    async def test_a_released_lock_is_free_at_once(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        fence = await a.locks.take(NAME, A, ttl=LONG)
        assert fence is not None
        assert await a.locks.release(NAME, A, fence=fence)
        assert not await a.locks.release(NAME, A, fence=fence), "it was over"
        assert not await a.locks.renew(NAME, A, fence=fence, ttl=LONG)
        assert await b.locks.take(NAME, B, ttl=LONG) is not None

    async def test_an_owner_who_takes_again_has_a_new_fence_and_the_old_one_is_over(
        self, backend: CoordinatorBackend
    ) -> None:
        a, b = await backend.connect(), await backend.connect()
        old = await a.locks.take(NAME, A, ttl=LONG)
        new = await a.locks.take(NAME, A, ttl=LONG)
        assert old is not None
        assert new is not None
        assert new > old
        assert not await a.locks.renew(NAME, A, fence=old, ttl=LONG)
        assert not await a.locks.release(NAME, A, fence=old)
        assert await b.locks.take(NAME, B, ttl=LONG) is None, f"holding {new} was ended by {old}"

    async def test_fences_grow_with_each_taking_of_a_name(self, backend: CoordinatorBackend) -> None:
        nodes = [await backend.connect() for _ in range(2)]
        fences = []
        for number in range(6):
            locks, owner = nodes[number % 2].locks, f"owner-{number}"
            fence = await locks.take(NAME, owner, ttl=LONG)
            assert fence is not None
            fences.append(fence)
            assert await locks.release(NAME, owner, fence=fence)
        assert fences == sorted(set(fences))

    async def test_fences_grow_across_a_lost_memory_which_ends_all_locks(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        before = await a.locks.take(NAME, A, ttl=LONG)
        assert before is not None
        await backend.forget()
        assert not await a.locks.renew(NAME, A, fence=before, ttl=LONG)
        after = await b.locks.take(NAME, B, ttl=LONG)
        assert after is not None
        assert after > before

    @pytest.mark.parametrize("name", ["", "a/b", "ä", ".hidden", "two words", "x" * 201])
    async def test_what_cannot_be_a_name_is_refused(self, backend: CoordinatorBackend, name: str) -> None:
        a = await backend.connect()
        with pytest.raises(InvalidError, match="name"):
            await a.locks.take(name, A, ttl=LONG)
        with pytest.raises(InvalidError, match="name"):
            await a.locks.renew(name, A, fence=1, ttl=LONG)
        with pytest.raises(InvalidError, match="name"):
            await a.locks.release(name, A, fence=1)

    @pytest.mark.parametrize("owner", ["", "x" * 201, "a\x00b", "\ud800"])
    async def test_what_cannot_be_an_owner_is_refused(self, backend: CoordinatorBackend, owner: str) -> None:
        a = await backend.connect()
        with pytest.raises(InvalidError, match="owner"):
            await a.locks.take(NAME, owner, ttl=LONG)

    async def test_names_and_owners_may_be_long_and_owners_any_text(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        name, owner = "x" * 200, "ä 1:2/3 \N{PILE OF POO}" * 20
        fence = await a.locks.take(name, owner, ttl=LONG)
        assert fence is not None
        assert await a.locks.renew(name, owner, fence=fence, ttl=LONG)
        assert await a.locks.release(name, owner, fence=fence)
