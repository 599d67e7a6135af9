"""Waiting for news that a watch brings, with a slow look of one's own as the net."""

from collections.abc import AsyncIterator
from datetime import timedelta

from rota.application.ports.system import Clock
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import Op, delete, is_put, only, put_missing

LONGEST_WATCH = timedelta(seconds=5)  # then one looks again: a watch is a hint
KEPT_WATCH = timedelta(seconds=15)  # one that stands for looks: where it is enough, it breaks when its server is gone
NOTHING = timedelta(0)


class Patience:
    """Deadlines on the node's own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def until(self, wait: timedelta) -> AsyncIterator[timedelta]:
        """How long to watch after each look, until the wait is over; the last one is zero: look once more."""
        end = self._clock.monotonic() + wait.total_seconds()
        while True:
            left = max(timedelta(seconds=end - self._clock.monotonic()), NOTHING)
            yield min(left, LONGEST_WATCH)
            if not left:
                return


async def wait_for_wake(client: EtcdClient, key: str, *, left: AsyncIterator[timedelta]) -> bool:
    """Until a key is written, which is deleted by the one who sees it (True), or the wait is over (False)."""
    async for wait in left:
        done = await client.write([delete(key)])
        if done.answers[0].delete.deleted:
            return True
        if wait:
            await client.wait_for(only(key), after=done.revision, wait=wait, is_wanted=is_put)
    return False


def wake_all(keys: EtcdKeys) -> list[Op]:
    """There is news: for the leader, and for one of those beside it, if there are any."""
    return [put_missing(keys.wake), put_missing(keys.wake_assistants)]
