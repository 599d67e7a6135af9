"""Dramatiq on Redis: two processes with eight threads each."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.common import PAYLOAD, URL, done

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor(max_retries=0)
def noop(to: str, subject: str, *, body: str) -> None:
    done()


def produce(tasks: int) -> None:
    for _ in range(tasks):
        noop.send(**PAYLOAD)
