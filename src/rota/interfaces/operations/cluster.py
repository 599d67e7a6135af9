"""Operations on workers, and figures of the whole cluster. Workers belong to all tenants."""

from typing import Any

from rota.application.ports.store import WorkerRecord
from rota.domain.access import Role
from rota.domain.ids import WorkerId
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import Call, NoBody, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import ElectionsQuery, ListWorkersQuery
from rota.wire import cluster as wire
from rota.wire.base import Page


async def list_workers(call: Call[ListWorkersQuery, None]) -> Reply:
    query, workers = call.query, call.services.workers
    after = None if query.cursor is None else WorkerId(read.number_cursor(query.cursor))
    found = await workers.list(alive_only=not query.all, after=after, limit=query.limit)
    following = read.cursor_after(found, query.limit, place=lambda record: record.worker.id)
    alive = await workers.list_alive()
    items = [render.worker_answer(record, is_alive=record.worker.id in alive) for record in found]
    return Reply(200, Page[wire.Worker](items=items, next_cursor=following))


async def get_worker(call: Call[NoQuery, None]) -> Reply:
    return await _reply(call, await call.services.workers.get(call.worker_id))


async def amend_worker(call: Call[NoQuery, wire.PatchWorker]) -> Reply:
    record = await call.services.workers.set_capacity(call.worker_id, call.body.capacity, actor=call.actor)
    return await _reply(call, record)


async def drain_worker(call: Call[NoQuery, NoBody]) -> Reply:
    return await _reply(call, await call.services.workers.drain(call.worker_id, actor=call.actor))


async def resume_worker(call: Call[NoQuery, NoBody]) -> Reply:
    return await _reply(call, await call.services.workers.resume(call.worker_id, actor=call.actor))


async def _reply(call: Call[NoQuery, Any], record: WorkerRecord) -> Reply:
    alive = await call.services.workers.list_alive()
    return Reply(200, render.worker_answer(record, is_alive=record.worker.id in alive))


async def get_queues(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, render.queues_answer(await call.services.figures.queues()))


async def get_queue_types(call: Call[NoQuery, None]) -> Reply:
    found = await call.services.figures.backlog()
    return Reply(200, render.queue_types_answer(found, call.tenant_id))


async def get_stats(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, render.stats_answer(await call.services.figures.stats(call.tenant_id)))


async def get_cluster(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, render.cluster_answer(await call.services.figures.cluster()))


async def list_elections(call: Call[ElectionsQuery, None]) -> Reply:
    found = await call.services.chronicle.list_reigns(call.query.limit)
    return Reply(200, Page[wire.Election](items=[render.election_answer(reign) for reign in found], next_cursor=None))


async def get_settings(call: Call[NoQuery, None]) -> Reply:
    services = call.services
    return Reply(200, render.settings_answer(services.settings(), services.node.id))


ABSENT = "worker_not_found"
OPERATIONS = (
    Operation(
        name="list_workers",
        method="GET",
        path="/workers",
        summary="List the workers.",
        role=Role.VIEWER,
        handler=list_workers,
        query=ListWorkersQuery,
        answers={200: Page[wire.Worker]},
    ),
    Operation(
        name="get_worker",
        method="GET",
        path="/workers/{id}",
        summary="Get a worker.",
        role=Role.VIEWER,
        handler=get_worker,
        answers={200: wire.Worker},
        errors=(ABSENT,),
    ),
    Operation(
        name="amend_worker",
        method="PATCH",
        path="/workers/{id}",
        summary="Change how many tasks a worker runs at once.",
        role=Role.OPERATOR,
        handler=amend_worker,
        body=wire.PatchWorker,
        answers={200: wire.Worker},
        errors=(ABSENT, "conflict"),
    ),
    Operation(
        name="drain_worker",
        method="POST",
        path="/workers/{id}:drain",
        summary="Let a worker take nothing new; what it runs goes on.",
        role=Role.OPERATOR,
        handler=drain_worker,
        body=NoBody,
        needs_body=False,
        answers={200: wire.Worker},
        errors=(ABSENT, "conflict"),
    ),
    Operation(
        name="resume_worker",
        method="POST",
        path="/workers/{id}:resume",
        summary="Let a worker take work again.",
        role=Role.OPERATOR,
        handler=resume_worker,
        body=NoBody,
        needs_body=False,
        answers={200: wire.Worker},
        errors=(ABSENT, "conflict"),
    ),
    Operation(
        name="get_queues",
        method="GET",
        path="/queues",
        summary="Say how much waits where, of all tenants, and for how long.",
        role=Role.VIEWER,
        handler=get_queues,
        answers={200: wire.Queues},
    ),
    Operation(
        name="get_queue_types",
        method="GET",
        path="/queues/types",
        summary="Say how much of each type waits and runs, counted over the oldest 20,000 tasks that have not ended.",
        role=Role.VIEWER,
        handler=get_queue_types,
        answers={200: wire.QueueTypes},
    ),
    Operation(
        name="get_stats",
        method="GET",
        path="/stats",
        summary="Count the tasks by state, and what happened lately.",
        role=Role.VIEWER,
        handler=get_stats,
        answers={200: wire.Stats},
    ),
    Operation(
        name="get_cluster",
        method="GET",
        path="/cluster",
        summary="Say which nodes there are, and who leads.",
        role=Role.VIEWER,
        handler=get_cluster,
        answers={200: wire.Cluster},
    ),
    Operation(
        name="list_elections",
        method="GET",
        path="/cluster/elections",
        summary="List who led, from when to when, and how that ended; the newest first.",
        role=Role.VIEWER,
        handler=list_elections,
        query=ElectionsQuery,
        answers={200: Page[wire.Election]},
    ),
    Operation(
        name="get_settings",
        method="GET",
        path="/settings",
        summary="Show the settings in force in the node that answers, where each comes from, and no secrets.",
        role=Role.ADMIN,
        handler=get_settings,
        answers={200: wire.Settings},
    ),
)
