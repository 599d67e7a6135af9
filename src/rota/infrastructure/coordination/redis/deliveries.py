"""What is handed out: a list for each worker to take from, and a set of what it has taken.

An entry is `task id:attempt number`. Taking moves it from the list to the set in one script, so an answer that is lost
on its way leaves the entry in the set, where `held` finds it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.domain.attempt import Attempt
from rota.domain.ids import TaskId, WorkerId
from rota.infrastructure.coordination.redis.keys import WORKER_KEYS_KEPT_MS, RedisKeys
from rota.infrastructure.coordination.redis_client import RedisClient, load_script


class RedisDeliveries:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._assign = load_script("assign")
        self._take = load_script("take_assigned")
        self._acknowledge = load_script("acknowledge")

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        if not attempts:
            return
        groups = _group(attempts)
        keys = [key for worker in groups for key in (self._keys.assigned(worker), self._keys.worker_wake(worker))]
        await self._client.run(self._assign, keys=keys, args=(WORKER_KEYS_KEPT_MS, *_to_args(groups)))

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        taken = await self._take_now(worker_id, limit)
        if taken or not await self._client.wait_for_token(self._keys.worker_wake(worker_id), wait):
            return taken
        return await self._take_now(worker_id, limit)

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        if not attempts:
            return
        groups = _group(attempts)
        keys = (self._keys.wake, *map(self._keys.in_flight, groups))
        await self._client.run(self._acknowledge, keys=keys, args=_to_args(groups))

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        entries = await self._client.command("SMEMBERS", self._keys.in_flight(worker_id))
        attempts = (_from_entry(entry, worker_id) for entry in entries)
        return sorted(attempts, key=lambda attempt: (attempt.task_id, attempt.number))

    async def _take_now(self, worker_id: WorkerId, limit: int) -> list[Attempt]:
        keys = self._keys
        names = (keys.assigned(worker_id), keys.in_flight(worker_id), keys.worker_wake(worker_id))
        entries = await self._client.run(self._take, keys=names, args=(limit, WORKER_KEYS_KEPT_MS))
        return [_from_entry(entry, worker_id) for entry in entries]


def _group(attempts: Sequence[Attempt]) -> Mapping[WorkerId, list[str]]:
    groups: dict[WorkerId, list[str]] = defaultdict(list)
    for attempt in attempts:
        groups[attempt.worker_id].append(f"{attempt.task_id}:{attempt.number}")
    return groups


def _to_args(groups: Mapping[WorkerId, list[str]]) -> tuple[int | str, ...]:
    return (*map(len, groups.values()), *(entry for entries in groups.values() for entry in entries))


def _from_entry(entry: bytes, worker_id: WorkerId) -> Attempt:
    task_id, _, number = entry.partition(b":")
    return Attempt(TaskId(int(task_id)), int(number), worker_id)
