"""All faults, each with its bound, and which of them a ground can be hurt with."""

import random
from collections.abc import Sequence

from tests.chaos import faults, server_faults
from tests.chaos.faults import Fault, lose_commit, through
from tests.chaos.ground import Ground, Terrain, has_small_disks
from tests.support.proxy import FaultyProxy

HELD_S = 5.0  # how long a fault lasts that does not end by itself
AWAY_S = 20.0  # long enough for everybody to have settled down without it
LONG_S = 16.0  # longer than a worker's lease
SLOW_S = 0.3
BACK_S = 6.0  # until Redis, which is away no more, is in use again


def _slow(proxy: FaultyProxy) -> None:
    proxy.delay(SLOW_S)


LEADER = (
    Fault("leader: kill -9", faults.kill_leader, 8),
    Fault("leader: SIGTERM", faults.stop_leader, 1),
    Fault("leader: SIGSTOP, SIGCONT", faults.freeze_leader, 8, held_s=10),
    Fault(
        "leader: cut from Redis",
        through("redis", FaultyProxy.blackhole, only_leader=True),
        8,
        held_s=10,
        rest_s=BACK_S,
        needs_redis=True,
    ),
    Fault(
        "leader: cut from the store", through("store", FaultyProxy.blackhole, only_leader=True), 8, held_s=10, rest_s=3
    ),
    Fault("leader: reply to a COMMIT lost", lose_commit(only_leader=True), 8),
    Fault("leader and worker: clock wrong by an hour", faults.wrong_clocks, 8, held_s=3),
)
WORKER = (
    Fault("worker: kill -9", faults.kill_worker, 15, loses=True),
    Fault("worker: SIGSTOP, SIGCONT", faults.freeze_worker, 15, held_s=LONG_S, loses=True),
    Fault("worker: SIGTERM", faults.stop_worker, 5),
    Fault("worker: event loop blocked for 14 s", faults.block_task_loops, 15),
    Fault("worker: killed by a task, thrice", faults.poison, 45),
    Fault("all: restarted one by one", faults.restart_one_by_one, 5),
)
REDIS = tuple(
    Fault(name, bring, 5, held_s=held_s, rest_s=BACK_S if held_s else 1.0, needs_redis=True)
    for name, bring, held_s in (
        ("Redis: FLUSHALL", server_faults.flush_redis, 0.0),
        ("Redis: kill -9, back empty", server_faults.restart_redis_empty, HELD_S),
        ("Redis: gone for 20 s", server_faults.restart_redis_empty, AWAY_S),
        ("Redis: cut", through("redis", FaultyProxy.cut), HELD_S),
        ("Redis: black hole", through("redis", FaultyProxy.blackhole), HELD_S),
        ("Redis: out of memory", server_faults.fill_redis, HELD_S),
        ("Redis: READONLY", server_faults.demote_redis, HELD_S),
    )
)
# It may cost the leader its lease: the bound of a new one.
SLOW_REDIS = Fault("Redis: 300 ms late", through("redis", _slow), 8, held_s=HELD_S, rest_s=BACK_S, needs_redis=True)
STORE = (
    Fault("store: kill -9, restart", server_faults.restart_store, 10, from_end=True, held_s=2),
    Fault("store: cut", through("store", FaultyProxy.cut), 10, from_end=True, held_s=HELD_S),
    Fault("store: black hole", through("store", FaultyProxy.blackhole), 10, from_end=True, held_s=HELD_S),
    Fault("store: replies lost", through("store", FaultyProxy.drop_replies), 10, from_end=True, held_s=HELD_S),
    Fault("store: reply to a COMMIT lost", lose_commit(), 10),
    Fault("store: connections killed", server_faults.kill_connections, 10),
    Fault("store: read-only", server_faults.make_read_only, 10, from_end=True, held_s=HELD_S),
    Fault("store: disk full", server_faults.fill_disk, 10, from_end=True, held_s=HELD_S, needs_small_disk=True),
)
FAULTS = (*LEADER, *WORKER, *REDIS, SLOW_REDIS, *STORE)
TELLING = ("leader: kill -9", "worker: SIGSTOP, SIGCONT", "store: black hole")  # with these a history proves something
WITH_SMALL_DISK = ("store: disk full", "leader: kill -9", "worker: SIGSTOP, SIGCONT")


def get_faults(*names: str) -> list[Fault]:
    by_name = {fault.name: fault for fault in FAULTS}
    return [by_name[name] for name in names]


def list_faults(terrains: Sequence[Terrain]) -> list[Fault]:
    """Those that some of these terrains can be hurt with."""
    has_redis = any(terrain.has_redis for terrain in terrains)
    return [
        fault
        for fault in FAULTS
        if (has_redis or not fault.needs_redis) and (has_small_disks() or not fault.needs_small_disk)
    ]


def shuffle_faults(ground: Ground, chance: random.Random) -> list[Fault]:
    """Those that can happen on this ground, the telling ones first: a short run has no time for more."""
    possible = [
        fault
        for fault in FAULTS
        if (ground.servers.redis is not None or not fault.needs_redis)
        and (ground.servers.disk is not None or not fault.needs_small_disk)
    ]
    first = get_faults(*TELLING)
    return [*first, *chance.sample([fault for fault in possible if fault not in first], len(possible) - len(first))]
