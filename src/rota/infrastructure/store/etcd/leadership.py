"""Terms and node slots in etcd: numbers that are issued once."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConflictError, UnavailableError
from rota.domain.ids import NODE_SLOTS, NodeId
from rota.infrastructure.etcd.ops import Op, put
from rota.infrastructure.instants import duration_us, from_us, to_us
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, id_of


class Term(msgspec.Struct, frozen=True):
    number: int
    node: str = ""


class HeldSlot(msgspec.Struct, frozen=True):
    """Who holds a node slot, or held it last."""

    node: str
    floor: int
    until_us: int


class EtcdTermStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space
        self._key = space.key("leadership")

    async def begin(self, node_id: NodeId) -> int:
        def plan(found: Found) -> tuple[list[Op], int]:
            term = Term(_read_term(found[0]) + 1, node_id)
            return [put(self._key, msgspec.json.encode(term))], term.number

        return await self._space.decide([self._key], plan)

    async def confirm(self, number: int) -> bool:
        def plan(found: Found) -> tuple[list[Op], bool]:
            is_newest = found[0] is not None and _read_term(found[0]) == number
            return ([put(self._key, found[0].value)] if is_newest and found[0] is not None else []), is_newest

        try:
            return await self._space.decide([self._key], plan)
        except UnavailableError:  # it may be written twice, and an election of etcd's own should not end a reign
            return await self._space.decide([self._key], plan)

    async def find_last(self) -> int:
        return _read_term(await self._space.find(self._key))


class EtcdSlotStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        while True:
            known = await self._space.scan(self._space.all("slots"))
            lease, replaced = self._choose(node_id, known)
            held = HeldSlot(node_id, lease.floor, to_us(self._space.now()) + duration_us(ttl))
            key = self._space.key("slots", lease.slot)
            if await self._space.write_if([key], [replaced], ops=[put(key, msgspec.json.encode(held))]):
                return lease

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        await self._space.unison.join_in("slots")
        key = self._space.key("slots", lease.slot)

        def plan(found: KV | None) -> tuple[bytes | None, bool]:
            now_us = to_us(self._space.now())
            held = None if found is None else _read_slot(found)
            if held is None or (held.node, held.floor) != (node_id, lease.number) or held.until_us <= now_us:
                return None, False
            return msgspec.json.encode(msgspec.structs.replace(held, until_us=now_us + duration_us(ttl))), True

        return await self._space.decide_own(key, plan)

    def _choose(self, node_id: NodeId, known: Sequence[KV]) -> tuple[SlotLease, KV | None]:
        """The slot to take, and whose it was: the node's own, one that has run out, or one more."""
        now_us = to_us(self._space.now())
        held = [(kv, _read_slot(kv)) for kv in known]
        own = [(kv, slot) for kv, slot in held if slot.node == node_id]
        free = [(kv, slot) for kv, slot in held if slot.until_us <= now_us]
        for kv, slot in (*own, *free):
            return SlotLease(id_of(kv), floor=slot.floor).followed(from_us(slot.until_us)), kv
        if len(known) >= NODE_SLOTS:
            raise ConflictError(f"all {NODE_SLOTS} node slots are leased")
        return SlotLease(len(known), floor=0), None


def _read_term(found: KV | None) -> int:
    return 0 if found is None else msgspec.json.decode(found.value, type=Term).number


def _read_slot(kv: KV) -> HeldSlot:
    return msgspec.json.decode(kv.value, type=HeldSlot)
