"""Who works: a hash per worker that expires with its lease, and a set of their ids to find the hashes by."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from rota.domain.ids import WorkerId
from rota.domain.worker import Worker
from rota.infrastructure.coordination.redis.keys import WORKER_KEYS_KEPT_MS, RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script


class RedisWorkerPool:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._register = load_script("register")
        self._heartbeat = load_script("heartbeat")
        self._prune = load_script("prune_workers")

    async def register(self, worker: Worker, lease: timedelta) -> None:
        fields = (part for field in _to_hash(worker).items() for part in field)
        args = (worker.id, milliseconds(lease), *fields)
        await self._client.run(self._register, keys=(self._keys.workers, self._keys.worker(worker.id)), args=args)

    async def heartbeat(self, worker_id: WorkerId, *, load: int, lease: timedelta) -> bool:
        keys = (self._keys.workers, *self._keys_of(worker_id))
        args = (worker_id, milliseconds(lease), load, milliseconds(lease) + WORKER_KEYS_KEPT_MS)
        return bool(await self._client.run(self._heartbeat, keys=keys, args=args))

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        if not worker_ids:
            return
        keys = [key for worker_id in worker_ids for key in self._keys_of(worker_id)]
        await self._client.batch([["UNLINK", *keys], ["SREM", self._keys.workers, *worker_ids]], atomic=True)

    async def list_alive(self) -> list[Worker]:
        known = sorted(WorkerId(int(member)) for member in await self._client.command("SMEMBERS", self._keys.workers))
        hashes = await self._client.batch([["HGETALL", self._keys.worker(worker_id)] for worker_id in known])
        found = dict(zip(known, hashes, strict=True))
        await self._forget([worker_id for worker_id, fields in found.items() if not fields])
        return [_from_hash(worker_id, fields) for worker_id, fields in found.items() if fields]

    async def _forget(self, expired: Sequence[WorkerId]) -> None:
        if expired:
            keys = (self._keys.workers, *map(self._keys.worker, expired))
            await self._client.run(self._prune, keys=keys, args=expired)

    def _keys_of(self, worker_id: WorkerId) -> tuple[str, str, str, str]:
        keys = self._keys
        return (
            keys.worker(worker_id),
            keys.assigned(worker_id),
            keys.in_flight(worker_id),
            keys.worker_wake(worker_id),
        )


def _to_hash(worker: Worker) -> Mapping[str, str | bytes | int]:
    return {
        "name": worker.name,
        "address": worker.address,
        "capacity": worker.capacity,
        "types": msgspec.json.encode(sorted(worker.types)),
        "weight": worker.weight,
        "labels": msgspec.json.encode(dict(worker.labels)),
        "load": worker.load,
        "draining": int(worker.is_draining),
    }


def _from_hash(worker_id: WorkerId, fields: Mapping[bytes, bytes]) -> Worker:
    return Worker(
        id=worker_id,
        name=fields[b"name"].decode(),
        address=fields[b"address"].decode(),
        capacity=int(fields[b"capacity"]),
        types=msgspec.json.decode(fields[b"types"], type=frozenset[str]),
        weight=int(fields[b"weight"]),
        labels=msgspec.json.decode(fields[b"labels"], type=dict[str, str]),
        load=int(fields[b"load"]),
        is_draining=fields[b"draining"] == b"1",
    )
