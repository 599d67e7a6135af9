"""What the parts of one process share: its ports, its clock and its ids."""

import secrets
from dataclasses import dataclass, field

from rota.application.config_cache import ConfigCache
from rota.application.ids import LeasedIds
from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import Store
from rota.application.ports.system import Clock, Random, System
from rota.application.store_time import StoreTime
from rota.domain.callback import KEY_NAME
from rota.domain.ids import NodeId


@dataclass(frozen=True, slots=True)
class Node:
    """One process of the cluster. Made by `join`, once its time and its id slot are known."""

    id: NodeId
    store: Store
    coordinator: Coordinator
    clock: Clock
    random: Random
    collector: MetricsCollector
    ids: LeasedIds
    time: StoreTime
    configs: ConfigCache
    loops: Loops
    callback_key: bytes = field(repr=False)  # of the whole cluster: signs the links that finish attempts from outside


async def join(
    node_id: NodeId,
    store: Store,
    *,
    coordinator: Coordinator,
    system: System,
    collector: MetricsCollector,
) -> Node:
    """Ask the store for the time, an id slot and the cluster's key: without them a node can do nothing."""
    clock, random = system.clock, system.random
    time = StoreTime(store.tasks, clock)
    node = Node(
        id=node_id,
        store=store,
        coordinator=coordinator,
        clock=clock,
        random=random,
        collector=collector,
        ids=LeasedIds(store.slots, clock, node_id=node_id, now=time.now, guard_every=system.guard_every),
        time=time,
        configs=ConfigCache(store.configs, clock),
        loops=Loops(clock, random, collector, system.guard_every),
        callback_key=(await store.secrets.keep(KEY_NAME, secrets.token_urlsafe(32))).encode(),
    )
    await node.time.sync()
    await node.ids.keep()
    return node
