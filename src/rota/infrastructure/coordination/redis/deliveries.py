"""What is handed out: a list for each worker to take from, and a set of what it has taken.

Whenever the list is not empty there is a token, for which the worker waits; the wait and the take after it travel as
one message. Should the token be lost, the take at the end of the wait finds what is there.

An entry is `task id:attempt number`, and stands in one of the two, once. Taking moves it from the list to the set in
one script, so an answer that is lost on its way leaves the entry in the set, where `held` finds it. What is no entry is
left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from rota.domain.attempt import Attempt
from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.redis.entries import find_entry, to_entry
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
        keys = [key for worker_id in groups for key in self._keys.deliveries_of(worker_id)]
        await self._client.run(self._assign, keys=keys, args=(WORKER_KEYS_KEPT_MS, *_to_args(groups)))

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        _, entries = await self._client.run_when_woken(
            self._take,
            token=self._keys.worker_wake(worker_id),
            wait=wait,
            keys=self._keys.deliveries_of(worker_id),
            args=(limit, WORKER_KEYS_KEPT_MS),
        )
        return _to_attempts(entries, worker_id)

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        if not attempts:
            return
        groups = _group(attempts)
        keys = (self._keys.wake, *(key for worker_id in groups for key in self._keys.deliveries_of(worker_id)))
        await self._client.run(self._acknowledge, keys=keys, args=_to_args(groups))

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        return _to_attempts(await self._client.command("LRANGE", self._keys.assigned(worker_id), 0, -1), worker_id)

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        entries = await self._client.command("SMEMBERS", self._keys.in_flight(worker_id))
        return sorted(_to_attempts(entries, worker_id), key=lambda attempt: (attempt.task_id, attempt.number))


def _group(attempts: Sequence[Attempt]) -> Mapping[WorkerId, list[str]]:
    groups: dict[WorkerId, list[str]] = defaultdict(list)
    for attempt in attempts:
        groups[attempt.worker_id].append(to_entry(attempt.task_id, attempt.number))
    return groups


def _to_args(groups: Mapping[WorkerId, list[str]]) -> tuple[int | str, ...]:
    return (*map(len, groups.values()), *(entry for entries in groups.values() for entry in entries))


def _to_attempts(texts: Iterable[bytes], worker_id: WorkerId) -> list[Attempt]:
    return [Attempt(*entry, worker_id) for entry in map(find_entry, texts) if entry is not None]
