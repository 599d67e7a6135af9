"""Asking about every worker on the list, in one round trip.

Which keys to ask for depends on who is on the list, and a script must be told its keys. But the list seldom changes:
the workers of the last time are asked about together with the list, and again only when it has become another one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.redis.entries import find_worker_id
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis_client import Part, RedisClient, Script

KeysOf = Callable[[WorkerId], Iterable[str]]


class RollCall:
    """A script is given the list, the keys that are not of a worker, and those of each worker; it answers with who is
    on the list, and then with what it was asked."""

    def __init__(self, client: RedisClient, keys: RedisKeys, *, script: Script, others: Sequence[str] = ()) -> None:
        self._client = client
        self._script = script
        self._keys = (keys.workers, *others)
        self._known: list[WorkerId] = []

    async def call(self, keys_of: KeysOf, *, args: Sequence[Part] = ()) -> tuple[list[WorkerId], list[Any]]:
        """The workers on the list, ascending, and the answers about them. Those to one script are of one moment."""
        guess = self._known
        members, *answers = await self._ask(guess, keys_of, args=args)
        known = sorted(worker_id for worker_id in map(find_worker_id, members) if worker_id is not None)
        if known != guess:
            _, *answers = await self._ask(known, keys_of, args=args)
            self._known = known
        return known, answers

    async def _ask(self, worker_ids: Sequence[WorkerId], keys_of: KeysOf, *, args: Sequence[Part]) -> list[Any]:
        keys = [*self._keys, *(key for worker_id in worker_ids for key in keys_of(worker_id))]
        answer: list[Any] = await self._client.run(self._script, keys=keys, args=args)
        return answer
