"""Terms and node slots in Redis: numbers that are issued once."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConflictError
from rota.domain.ids import NODE_SLOTS, NodeId
from rota.infrastructure.instants import duration_us, from_us, to_us
from rota.infrastructure.store.redis.space import Change, RedisSpace, load_own_script


class HeldSlot(msgspec.Struct, frozen=True):
    """Who holds a node slot, or held it last."""

    node: str
    floor: int
    until_us: int


class RedisTermStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("leadership")
        self._begin = load_own_script("begin_term")

    async def begin(self, node_id: NodeId) -> int:
        return int(await self._space.client.run(self._begin, keys=(self._key,), args=(node_id,)))

    async def confirm(self, number: int) -> bool:
        place, term = (self._key, "term"), str(number).encode()
        return await self._space.commit(Change().expect(place, term).put(place, term))

    async def find_last(self) -> int:
        return int(await self._space.find((self._key, "term")) or 0)


class RedisSlotStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("slots")

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        while True:
            now_us = to_us(await self._space.now())
            known = await self._space.read_hash(self._key)
            lease = _choose(node_id, {int(slot): _read(held) for slot, held in known.items()}, now_us=now_us)
            held = HeldSlot(node_id, lease.floor, now_us + duration_us(ttl))
            place = (self._key, str(lease.slot))
            change = Change().expect(place, known.get(place[1])).put(place, msgspec.json.encode(held))
            if await self._space.commit(change):
                return lease

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        place, now_us = (self._key, str(lease.slot)), to_us(await self._space.now())

        def plan(found: Sequence[bytes | None]) -> tuple[Change, bool]:
            held = None if found[0] is None else _read(found[0])
            if held is None or (held.node, held.floor) != (node_id, lease.number) or held.until_us <= now_us:
                return Change(), False
            longer = msgspec.structs.replace(held, until_us=now_us + duration_us(ttl))
            return Change().put(place, msgspec.json.encode(longer)), True

        return await self._space.decide([place], plan)


def _choose(node_id: NodeId, known: Mapping[int, HeldSlot], *, now_us: int) -> SlotLease:
    """The slot to take: the node's own, one that has run out, or one more."""
    own = [slot for slot, held in sorted(known.items()) if held.node == node_id]
    free = [slot for slot, held in sorted(known.items()) if held.until_us <= now_us]
    for slot in (*own, *free):
        return SlotLease(slot, floor=known[slot].floor).followed(from_us(known[slot].until_us))
    if len(known) >= NODE_SLOTS:
        raise ConflictError(f"all {NODE_SLOTS} node slots are leased")
    return SlotLease(len(known), floor=0)


def _read(held: bytes) -> HeldSlot:
    return msgspec.json.decode(held, type=HeldSlot)
