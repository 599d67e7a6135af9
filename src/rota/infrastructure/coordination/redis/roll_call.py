"""Asking about every worker on the list, in one round trip.

Which keys to ask for depends on who is on the list, and a script must be told its keys. But the list seldom changes:
the workers of the last time are asked about together with the list, and again only when it has become another one.
Until then nothing of it is read or spelt anew.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.redis.entries import find_worker_id
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis_client import Part, RedisClient, Script

KeysOf = Callable[[WorkerId], Iterable[str]]


class _Roll(NamedTuple):
    """Who is on the list, ascending, and the keys to ask about them."""

    members: list[bytes]  # as Redis told them
    known: Sequence[WorkerId]
    keys: Sequence[str]


class RollCall:
    """A script is given the list, the keys that are not of a worker, and those of each worker; it answers with who is
    on the list, and then with what it was asked."""

    def __init__(
        self, client: RedisClient, keys: RedisKeys, *, script: Script, keys_of: KeysOf, others: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._script = script
        self._keys_of = keys_of
        self._others = (keys.workers, *others)
        self._last = self._list([])

    async def call(self, *, args: Sequence[Part] = ()) -> tuple[Sequence[WorkerId], list[Any]]:
        """The workers on the list, ascending, and the answers about them. Those to one script are of one moment."""
        guess = self._last
        members, *answers = await self._ask(guess, args=args)
        if members == guess.members:
            return guess.known, answers
        roll = self._list(members)
        if roll.known != guess.known:
            _, *answers = await self._ask(roll, args=args)
        self._last = roll
        return roll.known, answers

    def _list(self, members: list[bytes]) -> _Roll:
        known = sorted(worker_id for worker_id in map(find_worker_id, members) if worker_id is not None)
        return _Roll(members, known, (*self._others, *(key for one in known for key in self._keys_of(one))))

    async def _ask(self, roll: _Roll, *, args: Sequence[Part]) -> list[Any]:
        answer: list[Any] = await self._client.run(self._script, keys=roll.keys, args=args)
        return answer
