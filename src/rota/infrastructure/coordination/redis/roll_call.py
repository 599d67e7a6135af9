"""Asking about every worker on the list, in one round trip.

Which keys to ask for depends on who is on the list, and a script must be told its keys. But the list seldom changes:
the workers of the last time are asked about together with the list, and again only when it has become another one.
"""

from collections.abc import Callable, Sequence
from typing import Any

from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.redis.entries import find_worker_id
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis_client import Part, RedisClient

Questions = Callable[[Sequence[WorkerId]], Sequence[Sequence[Part]]]


class RollCall:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._known: list[WorkerId] = []

    async def call(self, questions: Questions) -> tuple[list[WorkerId], list[Any]]:
        """The workers on the list, ascending, and the answers to the questions about them. Not atomic."""
        guess = self._known
        members, *answers = await self._client.batch([["SMEMBERS", self._keys.workers], *questions(guess)])
        known = sorted(worker_id for worker_id in map(find_worker_id, members) if worker_id is not None)
        if known != guess:
            answers = await self._client.batch(questions(known))
            self._known = known
        return known, answers
