"""Celery: two solo workers, which is its fastest; a high prefetch, as its guide says for short tasks; no results."""

from celery import Celery

from bench.peers.common import PAYLOAD, URL, done

app = Celery("peer", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=128, worker_send_task_events=False)


@app.task(name="noop")
def noop(to: str, subject: str, *, body: str) -> None:
    done()


def produce(tasks: int) -> None:
    with app.producer_or_acquire() as producer:
        for _ in range(tasks):
            noop.apply_async(kwargs=PAYLOAD, producer=producer)
