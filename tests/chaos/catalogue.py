"""All faults, each with its bound, and which of them a ground can be hurt with."""

import random
from collections.abc import Sequence

from tests.chaos import etcd_faults, failover_faults, faults, server_faults
from tests.chaos.faults import Fault, lose_commit, through
from tests.chaos.ground import Ground
from tests.chaos.servers import REDIS as TO_REDIS
from tests.chaos.servers import STORE as TO_STORE
from tests.chaos.terrain import (
    CLOCK,
    CLUSTER,
    ETCD,
    NETWORK,
    REDIS,
    REDIS_STORE,
    SENTINEL,
    SMALL,
    SQL,
    TERRAINS,
    Terrain,
    has_small_disks,
)
from tests.support.proxy import FaultyProxy

HELD_S = 5.0  # how long a fault lasts that does not end by itself
AWAY_S = 20.0  # long enough for everybody to have settled down without it
LONG_S = 16.0  # longer than a worker's lease
SLOW_S = 0.3
FAILOVER_S = 12.0  # longer than a failover takes
BACK_S = 6.0  # until Redis, which is away no more, is in use again


def _slow(proxy: FaultyProxy) -> None:
    proxy.delay(SLOW_S)


IN_SQL, ON_A_NETWORK, ON_ETCD, WITH_REDIS = map(frozenset, ({SQL}, {NETWORK}, {ETCD}, {REDIS}))

LEADER = (
    Fault("leader: kill -9", faults.kill_leader, 8),
    Fault("leader: SIGTERM", faults.stop_leader, 1),
    Fault("leader: SIGSTOP, SIGCONT", faults.freeze_leader, 8, held_s=10),
    Fault(
        "leader: cut from Redis",
        through(TO_REDIS, FaultyProxy.blackhole, only_leader=True),
        8,
        held_s=10,
        rest_s=BACK_S,
        needs=WITH_REDIS,
    ),
    Fault(
        "leader: cut from the store",
        through(TO_STORE, FaultyProxy.blackhole, only_leader=True),
        8,
        held_s=10,
        rest_s=3,
        needs=ON_A_NETWORK,
    ),
    Fault("leader: reply to a COMMIT lost", lose_commit(only_leader=True), 8, needs=IN_SQL),
    Fault("leader and worker: clock wrong by an hour", faults.wrong_clocks, 8, held_s=3, needs=frozenset({CLOCK})),
)
WORKER = (
    Fault("worker: kill -9", faults.kill_worker, 15, loses=True),
    Fault("worker: SIGSTOP, SIGCONT", faults.freeze_worker, 15, held_s=LONG_S, loses=True),
    Fault("worker: SIGTERM", faults.stop_worker, 5),
    Fault("worker: event loop blocked for 14 s", faults.block_task_loops, 15),
    Fault("worker: killed by a task, thrice", faults.poison, 45),
    Fault("all: restarted one by one", faults.restart_one_by_one, 5),
)
ONE_REDIS = tuple(
    Fault(name, bring, 5, held_s=held_s, rest_s=BACK_S if held_s else 1.0, needs=WITH_REDIS)
    for name, bring, held_s in (
        ("Redis: FLUSHALL", server_faults.flush_redis, 0.0),
        ("Redis: kill -9, back empty", server_faults.restart_redis_empty, HELD_S),
        ("Redis: gone for 20 s", server_faults.restart_redis_empty, AWAY_S),
        ("Redis: cut", through(TO_REDIS, FaultyProxy.cut), HELD_S),
        ("Redis: black hole", through(TO_REDIS, FaultyProxy.blackhole), HELD_S),
        ("Redis: out of memory", server_faults.fill_redis, HELD_S),
        ("Redis: READONLY", server_faults.demote_redis, HELD_S),
    )
)
# It may cost the leader its lease: the bound of a new one.
SLOW_REDIS = Fault("Redis: 300 ms late", through(TO_REDIS, _slow), 8, held_s=HELD_S, rest_s=BACK_S, needs=WITH_REDIS)
STORE = (
    Fault("store: kill -9, restart", server_faults.restart_store, 10, from_end=True, held_s=2, needs=IN_SQL),
    *(
        Fault(name, through(TO_STORE, hurt), 10, from_end=True, held_s=HELD_S, needs=ON_A_NETWORK)
        for name, hurt in (
            ("store: cut", FaultyProxy.cut),
            ("store: black hole", FaultyProxy.blackhole),
            ("store: replies lost", FaultyProxy.drop_replies),
        )
    ),
    Fault("store: reply to a COMMIT lost", lose_commit(), 10, needs=IN_SQL),
    Fault("store: connections killed", server_faults.kill_connections, 10, needs=IN_SQL),
    Fault("store: read-only", server_faults.make_read_only, 10, from_end=True, held_s=HELD_S, needs=IN_SQL),
    Fault("store: disk full", server_faults.fill_disk, 10, from_end=True, held_s=HELD_S, needs=frozenset({SQL, SMALL})),
)
ETCD_CLUSTER = (
    Fault("etcd: leader kill -9, back after 5 s", etcd_faults.kill_leader, 3, held_s=HELD_S, needs=ON_ETCD),
    Fault("etcd: leader SIGSTOP, SIGCONT", etcd_faults.freeze_leader, 5, held_s=HELD_S, needs=ON_ETCD),
    Fault("etcd: member SIGSTOP, SIGCONT", etcd_faults.freeze_member, 5, held_s=HELD_S, needs=ON_ETCD),
    Fault("etcd: member out of reach", etcd_faults.lose_line(0), 5, held_s=HELD_S, needs=ON_ETCD),
    Fault("etcd: two of three kill -9", etcd_faults.lose_quorum, 10, from_end=True, held_s=HELD_S, needs=ON_ETCD),
)


FAILOVER = tuple(
    Fault(f"{kind}: primary {what}", bring, bound_s, held_s=held_s, rest_s=BACK_S, needs=frozenset({kind, *more}))
    for kind, bound_s in ((SENTINEL, 10), (CLUSTER, 15))
    for what, bring, held_s, more in (
        ("kill -9", failover_faults.kill_primary, FAILOVER_S, ()),
        ("SIGSTOP, SIGCONT", failover_faults.freeze_primary, FAILOVER_S, ()),
        ("kill -9, back after 2 s", failover_faults.restart_primary, 2.0, ()),
        ("replaced by hand", failover_faults.switch_primary, HELD_S, ()),
        ("kill -9, the next lacks writes", failover_faults.lose_writes, FAILOVER_S, (REDIS_STORE,)),
    )
)
FAULTS = (*LEADER, *WORKER, *ONE_REDIS, SLOW_REDIS, *STORE, *ETCD_CLUSTER, *FAILOVER)
TELLING = (  # with these a history proves something
    "leader: kill -9",
    "worker: SIGSTOP, SIGCONT",
    "store: black hole",
    f"{SENTINEL}: primary kill -9",
    f"{CLUSTER}: primary kill -9",
)
WITH_SMALL_DISK = ("store: disk full", "leader: kill -9", "worker: SIGSTOP, SIGCONT")


def get_faults(*names: str) -> list[Fault]:
    by_name = {fault.name: fault for fault in FAULTS}
    return [by_name[name] for name in names]


def list_faults(terrains: Sequence[Terrain]) -> list[Fault]:
    """Those that some of these terrains can be hurt with, by whoever runs this."""
    faults = [fault for fault in FAULTS if SMALL not in fault.needs or has_small_disks()]
    return [fault for fault in faults if set(list_terrains(fault)) & set(terrains)]


def list_terrains(*faults: Fault) -> list[Terrain]:
    """Those that can be hurt with all of these; a small disk is made where it is needed."""
    return [terrain for terrain in TERRAINS if all(fault.needs <= terrain.traits | {SMALL} for fault in faults)]


def describe_terrains(fault: Fault) -> str:
    """In the words of the page of guarantees."""
    terrains = list_terrains(fault)
    return "all" if len(terrains) == len(TERRAINS) else ", ".join(terrain.name for terrain in terrains)


def shuffle_faults(ground: Ground, chance: random.Random) -> list[Fault]:
    """Those that can happen on this ground, the telling ones first: a short run has no time for more."""
    possible = [fault for fault in FAULTS if fault.needs <= ground.traits]
    first = [fault for fault in get_faults(*TELLING) if fault in possible]
    return [*first, *chance.sample([fault for fault in possible if fault not in first], len(possible) - len(first))]
