"""Who works: a hash per worker that expires with its lease, and a set of their ids to find the hashes by.

A counter of registrations and removals tells the scheduler whether the list that it knows is still the list.

The hash also has the last heartbeat: `load`, `completed` and `held`, the attempts at hand with blanks between them. A
field that is missing, because another release wrote the hash, has its default; what cannot be read is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from rota.domain.errors import InvalidError
from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.redis.entries import Entry, find_entry, to_entry
from rota.infrastructure.coordination.redis.keys import MOST_REMEMBERED, WORKER_KEYS_KEPT_MS, RedisKeys, milliseconds
from rota.infrastructure.coordination.redis.roll_call import RollCall
from rota.infrastructure.coordination.redis_client import Part, RedisClient, load_script

Values = Sequence[bytes | None]

_READERS: Mapping[str, tuple[str, Callable[[bytes], Any]]] = {  # by field of the hash: that of the worker, how to read
    "name": ("name", bytes.decode),
    "address": ("address", bytes.decode),
    "capacity": ("capacity", int),
    "types": ("types", msgspec.json.Decoder(frozenset[str]).decode),
    "weight": ("weight", int),
    "labels": ("labels", msgspec.json.Decoder(dict[str, str]).decode),
    "load": ("load", int),
    "draining": ("is_draining", lambda text: text == b"1"),
}
_BEAT_FIELDS = ("load", "completed", "held")


class RedisWorkerPool:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._register = load_script("register")
        self._heartbeat = load_script("heartbeat")
        self._prune = load_script("prune_workers")
        script = load_script("read_workers")
        self._roll = RollCall(client, keys, script=script, keys_of=lambda worker_id: (keys.worker(worker_id),))

    async def register(self, worker: Worker, lease: timedelta) -> None:
        fields = (part for field in _to_hash(worker).items() for part in field)
        args = (worker.id, milliseconds(lease), *fields)
        keys = (self._keys.workers, self._keys.worker(worker.id), self._keys.changes)
        await self._client.run(self._register, keys=keys, args=args)

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        keys = (self._keys.workers, *self._keys_of(worker_id))
        held = " ".join(to_entry(*entry) for entry in sorted(beat.held))
        kept_ms = milliseconds(lease) + WORKER_KEYS_KEPT_MS
        args = (worker_id, milliseconds(lease), kept_ms, beat.load, beat.completed, held)
        return bool(await self._client.run(self._heartbeat, keys=keys, args=args))

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        if not worker_ids:
            return
        keys = [key for worker_id in worker_ids for key in self._keys_of(worker_id)]
        left: tuple[Part, ...] = ("SREM", self._keys.workers, *worker_ids)
        await self._client.batch([("UNLINK", *keys), left, ("INCR", self._keys.changes)], atomic=True)

    async def list_alive(self) -> list[Worker]:
        found = await self._read_hashes(tuple(_READERS))
        workers = {worker_id: _find_worker(worker_id, tuple(values)) for worker_id, values in found.items()}
        alive = [worker for worker in workers.values() if worker is not None]
        if len(alive) < len(workers):
            await self._forget([worker_id for worker_id, values in found.items() if not any(values)])
        return alive

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        found = await self._read_hashes(_BEAT_FIELDS)
        beats = ((worker_id, _find_beat(values)) for worker_id, values in found.items())
        return {worker_id: beat for worker_id, beat in beats if beat is not None}

    async def _read_hashes(self, fields: Sequence[str]) -> dict[WorkerId, Values]:
        """These fields of all workers on the list, by id."""
        known, (hashes,) = await self._roll.call(args=fields)
        return dict(zip(known, hashes, strict=True))

    async def _forget(self, expired: Sequence[WorkerId]) -> None:
        if expired:
            keys = (self._keys.workers, *map(self._keys.worker, expired))
            await self._client.run(self._prune, keys=keys, args=expired)

    def _keys_of(self, worker_id: WorkerId) -> tuple[str, ...]:
        return self._keys.worker(worker_id), *self._keys.deliveries_of(worker_id)


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


@lru_cache(maxsize=MOST_REMEMBERED)
def _find_worker(worker_id: WorkerId, values: tuple[bytes | None, ...]) -> Worker | None:
    """Every round of dispatch asks for all workers, and hardly ever has one changed since."""
    given = zip(_READERS.values(), values, strict=True)
    with suppress(ValueError, TypeError, msgspec.DecodeError, InvalidError):  # TypeError: it has no name
        return Worker(id=worker_id, **{name: read(value) for (name, read), value in given if value is not None})
    return None


def _find_beat(values: Values) -> Heartbeat | None:
    load, completed, held = values
    if load is None or completed is None or held is None:
        return None
    with suppress(ValueError, InvalidError):
        return Heartbeat(int(load), int(completed), frozenset(map(_to_entry, held.split())))
    return None


def _to_entry(text: bytes) -> Entry:
    """One of those held. Left out alone, it would be taken for lost: then rather the whole heartbeat."""
    entry = find_entry(text)
    if entry is None:
        raise ValueError(text)
    return entry
