"""Who leads, by a key that expires.

The leader key names the node and the number of its lease; it is written only when absent, and prolonged or removed
only by a script that compares both. So a node that slept through its lease finds it gone and can neither prolong nor
end that of its successor. Numbers are the server's clock in microseconds, but always above the last one given: they
grow also when all memory was lost. (If the server's clock is then set back as well, they may not: the term, which the
store issues, is the fence.)

A resignation leaves tokens for more standbys than anyone runs, each of which takes one and campaigns. The next
campaign that wins removes what is left of them.
"""

from datetime import timedelta

from rota.domain.ids import NodeId
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script

STANDBYS = 64
VACANCY_KEPT = timedelta(seconds=1)  # a hint older than this has been acted on


class RedisElection:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._campaign = load_script("campaign")
        self._renew = load_script("renew")
        self._resign = load_script("resign")

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        keys = (self._keys.leader, self._keys.last_lease, self._keys.vacancy)
        lease = await self._client.run(self._campaign, keys=keys, args=(node_id, milliseconds(ttl)))
        return None if lease is None else int(lease)

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        args = (node_id, lease, milliseconds(ttl))
        return bool(await self._client.run(self._renew, keys=(self._keys.leader,), args=args))

    async def resign(self, node_id: NodeId, lease: int) -> None:
        keys = (self._keys.leader, self._keys.vacancy)
        await self._client.run(self._resign, keys=keys, args=(node_id, lease, STANDBYS, milliseconds(VACANCY_KEPT)))

    async def find_leader(self) -> NodeId | None:
        node_id: bytes | None = await self._client.command("HGET", self._keys.leader, "node")
        return None if node_id is None else NodeId(node_id.decode(errors="replace"))

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await self._client.wait_for_token(self._keys.vacancy, wait)
