"""The contract of `TermStore` and `SlotStore`: numbers that are issued once."""

import asyncio
from itertools import pairwise

import pytest

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConflictError
from rota.domain.ids import NODE_SLOTS, NodeId, first_id_at
from rota.testing.contract.in_time import in_time
from rota.testing.contract.store_backend import HOUR, NODE_A, NODE_B, NODE_C, StoreBackend


@pytest.mark.asyncio
class TestTerms:
    async def test_the_newest_term_can_be_asked_for(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        number = await a.terms.begin(NODE_A)
        assert await b.terms.find_last() == number
        newer = await b.terms.begin(NODE_B)
        assert await a.terms.find_last() == newer

    async def test_each_term_is_greater_than_all_before(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        terms = [await node.terms.begin(name) for node, name in ((a, NODE_A), (b, NODE_B), (a, NODE_A), (a, NODE_A))]
        assert terms == sorted(set(terms))
        assert terms[0] > 0

    async def test_terms_begun_at_once_are_all_different(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        before = await nodes[0].terms.begin(NODE_C)
        terms = await asyncio.gather(*(node.terms.begin(NODE_A) for node in nodes for _ in range(20)))
        assert len({before, *terms}) == 41
        assert min(terms) > before
        assert await nodes[0].terms.begin(NODE_B) > max(terms)

    async def test_the_newest_term_is_confirmed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        term = await store.terms.begin(NODE_A)
        assert [await store.terms.confirm(term) for _ in range(3)] == [True, True, True]

    async def test_a_term_is_not_confirmed_after_a_newer_one(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        old = await a.terms.begin(NODE_A)
        new = await b.terms.begin(NODE_B)
        assert not await a.terms.confirm(old)
        assert await b.terms.confirm(new)

    async def test_a_node_that_begins_again_ends_its_own_older_term(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        old = await store.terms.begin(NODE_A)
        await store.terms.begin(NODE_A)
        assert not await store.terms.confirm(old)

    async def test_a_term_that_was_never_begun_is_not_confirmed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        term = await store.terms.begin(NODE_A)
        assert not await store.terms.confirm(term + 1)


@pytest.mark.asyncio
class TestSlots:
    async def test_two_nodes_have_two_slots(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        leases = [await a.slots.lease(NODE_A, HOUR), await b.slots.lease(NODE_B, HOUR)]
        assert len({lease.slot for lease in leases}) == 2
        assert all(0 <= lease.slot < NODE_SLOTS for lease in leases)

    async def test_nodes_that_ask_at_once_have_different_slots(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        names = [NodeId(f"node-{number}") for number in range(20)]
        calls = [nodes[number % 2].slots.lease(name, HOUR) for number, name in enumerate(names)]
        leases = await asyncio.gather(*calls)
        assert len({lease.slot for lease in leases}) == 20

    async def test_a_node_gets_its_own_slot_again(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.slots.lease(NODE_A, HOUR)
        first = await store.slots.lease(NODE_B, HOUR)
        assert (await store.slots.lease(NODE_B, HOUR)).slot == first.slot

    async def test_a_node_gets_its_own_slot_again_rather_than_an_expired_one(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.slots.lease(NODE_A, backend.tick)
        own = await store.slots.lease(NODE_B, HOUR)
        await backend.wait(backend.tick * 2)
        assert (await store.slots.lease(NODE_B, HOUR)).slot == own.slot

    async def test_an_expired_slot_is_taken_over_with_a_floor_above_its_last_id(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        before = await a.tasks.now()
        old = await a.slots.lease(NODE_A, backend.tick)
        await backend.wait(backend.tick * 2)
        new = await b.slots.lease(NODE_B, HOUR)
        assert new.slot == old.slot
        assert first_id_at(before + backend.tick) <= new.floor <= first_id_at(await b.tasks.now())

    async def test_the_floor_of_a_slot_taken_again_covers_the_lease_before(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        before = await store.tasks.now()
        await store.slots.lease(NODE_A, HOUR)
        again = await store.slots.lease(NODE_A, HOUR)
        assert again.floor >= first_id_at(before + HOUR)

    async def test_a_slot_that_is_held_is_not_taken_over(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        held = await store.slots.lease(NODE_A, HOUR)
        assert (await store.slots.lease(NODE_B, HOUR)).slot != held.slot

    async def test_of_many_that_take_over_at_once_one_gets_the_slot(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        old = await nodes[0].slots.lease(NODE_C, backend.tick)
        await backend.wait(backend.tick * 2)
        await asyncio.gather(*(node.tasks.now() for node in nodes for _ in range(6)))  # connected before the race
        calls = [
            node.slots.lease(NodeId(f"{place}-{number}"), HOUR)
            for number in range(6)
            for place, node in enumerate(nodes)
        ]
        slots = [lease.slot for lease in await asyncio.gather(*calls)]
        assert len(set(slots)) == 12
        assert old.slot in slots

    async def test_a_renewed_slot_outlives_its_first_ttl(self, backend: StoreBackend) -> None:
        store = await backend.connect()

        async def renew() -> SlotLease | None:
            own = await store.slots.lease(NODE_A, backend.tick * 4)
            return own if await store.slots.renew(NODE_A, own, ttl=HOUR) else None

        own = await in_time(renew)
        assert own is not None
        await backend.wait(backend.tick * 5)
        assert (await store.slots.lease(NODE_B, HOUR)).slot != own.slot

    async def test_an_expired_slot_cannot_be_renewed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await store.slots.lease(NODE_A, backend.tick)
        await backend.wait(backend.tick * 2)
        assert not await store.slots.renew(NODE_A, own, ttl=HOUR)

    async def test_a_slot_taken_over_cannot_be_renewed_by_the_earlier_holder(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await store.slots.lease(NODE_A, backend.tick)
        await backend.wait(backend.tick * 2)
        new = await store.slots.lease(NODE_B, HOUR)
        assert new.slot == own.slot
        assert not await store.slots.renew(NODE_A, own, ttl=HOUR)
        assert await store.slots.renew(NODE_B, new, ttl=HOUR)

    async def test_of_two_processes_with_one_name_the_later_one_has_the_slot(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        first = await a.slots.lease(NODE_A, HOUR)
        second = await b.slots.lease(NODE_A, HOUR)
        assert (second.slot, second.number > first.number) == (first.slot, True)
        assert not await a.slots.renew(NODE_A, first, ttl=HOUR)
        assert await b.slots.renew(NODE_A, second, ttl=HOUR)

    async def test_a_lease_is_renewed_again_and_again(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await store.slots.lease(NODE_A, HOUR)
        assert [await store.slots.renew(NODE_A, own, ttl=HOUR) for _ in range(3)] == [True, True, True]

    async def test_another_nodes_lease_cannot_be_renewed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await store.slots.lease(NODE_A, HOUR)
        assert not await store.slots.renew(NODE_B, own, ttl=HOUR)

    async def test_each_lease_of_a_slot_has_a_greater_number_and_floor(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ttls = [HOUR, HOUR, backend.tick, HOUR, backend.tick * 2, backend.tick]
        leases = [await store.slots.lease(NODE_A, ttl) for ttl in ttls]
        assert len({lease.slot for lease in leases}) == 1
        for earlier, later in pairwise(leases):
            assert later.number > earlier.number
            assert later.floor > earlier.floor

    async def test_a_lease_cut_short_leaves_a_floor_above_the_ids_it_began_at(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.slots.lease(NODE_A, HOUR)
        ahead = await store.slots.lease(NODE_A, backend.tick)  # its ids begin an hour from now
        await backend.wait(backend.tick * 2)
        assert (await store.slots.lease(NODE_B, HOUR)).floor > ahead.floor

    async def test_a_slot_nobody_leased_cannot_be_renewed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert not await store.slots.renew(NODE_A, SlotLease(7, floor=0), ttl=HOUR)

    async def test_when_all_slots_are_taken_the_next_node_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        leases = [await store.slots.lease(NodeId(f"node-{number}"), HOUR) for number in range(NODE_SLOTS)]
        with pytest.raises(ConflictError):
            await store.slots.lease(NODE_A, HOUR)
        assert await store.slots.renew(NodeId("node-1023"), leases[-1], ttl=HOUR)
