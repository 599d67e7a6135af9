"""A first look at the foundation: one task from submit to success, and what happens to a late result.

    make dev

Everything runs in this process on SQLite, in `.rota/first_look.db`. No scheduler or worker process exists yet, so this
program plays their parts by hand, step by step, through the same ports that they will use.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.store import Store
from rota.domain.attempt import Attempt, Succeeded, TaskResult
from rota.domain.balancing import Need, draws_from, least_task, spread
from rota.domain.conclusion import conclude
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.queue import QueueEntry
from rota.domain.submission import Submission, compose
from rota.domain.task import Task, TaskStatus
from rota.domain.task_config import TaskConfig
from rota.domain.worker import Worker
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql.store import open_sql_store
from rota.infrastructure.system import NodeIds, SystemClock, SystemRandom

FILE = Path(".rota/first_look.db")
NODE = NodeId("first-look")
LEASE = timedelta(seconds=30)
MOST_URGENT_FIRST = tuple(reversed(LEVELS))


async def main() -> None:
    url = f"sqlite:///{FILE}"
    schema = await upgrade(url)
    print(f"store        {url}, schema {schema.current}")
    clock, random = SystemClock(), SystemRandom()
    async with open_sql_store(url, clock=clock, random=random) as store:
        coordinator = memory_coordinator(clock)
        ids = NodeIds(clock, await store.slots.lease(NODE, LEASE))
        term = await lead(store, coordinator)
        alice = await join(coordinator, Worker(id=WorkerId(ids.next()), name="alice"))
        task = await submit(store, coordinator, ids=ids)
        await dispatch(store, coordinator, term=term)
        (first,) = await coordinator.deliveries.take(alice.id, 10, wait=LEASE)
        seen_by_alice = (await store.tasks.load([task.id]))[task.id]
        await lose(store, coordinator, attempt=first)
        bob = await join(coordinator, Worker(id=WorkerId(ids.next()), name="bob"))
        await dispatch(store, coordinator, term=term)
        (second,) = await coordinator.deliveries.take(bob.id, 10, wait=LEASE)
        await succeed(store, coordinator, attempt=second)
        await report_late(store, seen_by_alice)
        await show(store, task.id)


async def lead(store: Store, coordinator: Coordinator) -> int:
    """Win the election, then let the store issue the number of the reign."""
    await coordinator.election.campaign(NODE, LEASE)
    term = await store.terms.begin(NODE)
    print(f"elected      {NODE}, term {term}")
    return term


async def join(coordinator: Coordinator, worker: Worker) -> Worker:
    await coordinator.pool.register(worker, LEASE)
    print(f"joined       worker {worker.name}")
    return worker


async def submit(store: Store, coordinator: Coordinator, *, ids: NodeIds) -> Task:
    """Validate, take defaults from the config, commit, then queue: the row is the truth, the queue a hint."""
    config = await store.configs.put(TaskConfig(type="send_email", timeout=timedelta(minutes=1)))
    wish = Submission(type="send_email", payload={"to": "you@example.com"}, priority="high")
    new = compose(wish, config, task_id=TaskId(ids.next()), now=await store.tasks.now())
    await store.tasks.add([new])
    await coordinator.queue.push([QueueEntry(new.task.id, new.task.state.priority)])
    print(f"submitted    task {new.task.id}, priority {new.task.state.priority}")
    return new.task


async def dispatch(store: Store, coordinator: Coordinator, *, term: int) -> None:
    """As the leader: take from the queue, choose a worker, grant the next attempt, hand it over."""
    taken = await coordinator.queue.take(100, order=MOST_URGENT_FIRST)
    workers = {worker.id: worker for worker in await coordinator.pool.list_alive()}
    (live,) = await store.tasks.find_live(taken.task_ids)
    draws = draws_from(0, SystemRandom().chance)
    chosen = spread([Need(live.id, live.type)], list(workers.values()), balancer=least_task, draws=draws)
    worker = workers[chosen[live.id]]
    grant = live.state.granted(worker.id, term=term, at=await store.tasks.now(), timeout=live.timeout)
    written = await store.tasks.advance([grant])
    if live.id in written.applied:
        await coordinator.deliveries.assign([Attempt(live.id, grant.after.attempt, worker.id)])
    print(f"granted      attempt {grant.after.attempt} to worker {worker.name}")


async def lose(store: Store, coordinator: Coordinator, *, attempt: Attempt) -> None:
    """As the leader: alice went silent. Her attempt goes back to the queue and costs the task no retry."""
    await coordinator.pool.remove([attempt.worker_id])
    (live,) = await store.tasks.find_live([attempt.task_id])
    await store.tasks.advance([live.state.lost(at=await store.tasks.now())])
    await coordinator.queue.push([QueueEntry(live.id, live.state.priority)])
    print(f"lost         attempt {attempt.number}: worker alice went silent")


async def succeed(store: Store, coordinator: Coordinator, *, attempt: Attempt) -> None:
    """As the worker: record the end in the store, and only then acknowledge it to the coordinator."""
    task = (await store.tasks.load([attempt.task_id]))[attempt.task_id]
    outcome = Succeeded(TaskResult(data='{"sent":true}'))
    step = conclude(task.state, outcome, policy=task.spec.retry, at=await store.tasks.now(), chance=0.0)
    await store.tasks.advance([step])
    await coordinator.deliveries.acknowledge([attempt])
    print(f"succeeded    attempt {attempt.number}")


async def report_late(store: Store, seen: Task) -> None:
    """As alice, awake again: what she reports is refused, for the task has moved on."""
    step = conclude(seen.state, Succeeded(), policy=seen.spec.retry, at=await store.tasks.now(), chance=0.0)
    written = await store.tasks.advance([step])
    print(f"late result  of attempt {seen.state.attempt}: {'refused as stale' if written.stale else 'applied'}")


async def show(store: Store, task_id: TaskId) -> None:
    task = (await store.tasks.load([task_id]))[task_id]
    print(f"\ntask {task_id} is {task.state.status}, result {task.result.data if task.result else None}\n")
    for entry in await store.logs.read(task_id):
        change = f"{entry.from_status or 'new'} → {entry.to_status}"
        print(f"  {entry.at:%H:%M:%S.%f}  {change:24s} attempt {entry.attempt}  {entry.message}".rstrip())
    ended = (await store.tasks.count_by_status(DEFAULT_TENANT))[TaskStatus.SUCCESS]
    print(f"\n{FILE} now holds {ended} such task{'s' if ended > 1 else ''}; each run of this adds one.")


if __name__ == "__main__":
    asyncio.run(main())
