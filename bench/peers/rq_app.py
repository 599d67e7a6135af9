"""RQ: two SimpleWorkers, which do not fork for each job, with no result kept."""

from redis import Redis
from rq import Queue

from bench.peers.common import PAYLOAD, URL, batches, done


def noop(to: str, subject: str, *, body: str) -> None:
    done()


def produce(tasks: int) -> None:
    queue = Queue(connection=Redis.from_url(URL))
    for number in batches(tasks):
        queue.enqueue_many([Queue.prepare_data(noop, kwargs=PAYLOAD, result_ttl=0) for _ in range(number)])
