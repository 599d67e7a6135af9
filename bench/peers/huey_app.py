"""Huey on Redis: two worker processes, no results."""

from huey import RedisHuey

from bench.peers.common import PAYLOAD, URL, done

huey = RedisHuey("peer", url=URL, results=False)


@huey.task(name="noop")
def noop(to: str, subject: str, *, body: str) -> None:
    done()


def produce(tasks: int) -> None:
    for _ in range(tasks):
        noop(**PAYLOAD)
