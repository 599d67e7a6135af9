"""Why a task is where it is, for people who wonder.

Any node can answer: it looks at the store, the pool and the queues as dispatch does, not into the leader's memory. So
the answer is what dispatch would most likely find now. Of several reasons it names the one that must go away first.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.application.crew import Crew
from rota.application.parking import key_of
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.store import ConfigStore, TaskStore
from rota.application.store_time import CLOCK_SLACK
from rota.domain.errors import NotFoundError
from rota.domain.ids import NodeId, TaskId, TenantId, WorkerId
from rota.domain.schedule import Overlap
from rota.domain.task import BLOCKED, PENDING, PROCESSING, RETRYING, Task, TaskStatus
from rota.domain.task_config import LOCAL, TaskConfig
from rota.domain.waiting import Reason
from rota.domain.worker import OF_MODULE, functions_in, needed_by, types_by

PROMPT = timedelta(seconds=1)  # what waits no longer than this is just on its way, not held up by a rate
PAGE = 1000
MOST_PAGES = 20  # of running attempts that are counted; a limit beyond that is not looked into


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a task stands and what it waits for."""

    task_id: TaskId
    status: TaskStatus
    reason: Reason
    sentence: str
    due_at: datetime | None = None  # waiting: the earliest start; running: the deadline
    attempt: int = 0
    worker_id: WorkerId | None = None
    workers: int | None = None  # that support the type
    draining: int | None = None  # of those workers
    room: int | None = None  # attempts that they could start now
    running: int | None = None  # attempts of the type, where their number is limited
    max_concurrent: int | None = None
    rate_per_second: float | None = None
    global_rate: float | None = None
    ready: int | None = None  # entries in the queue at the task's level and above
    executor: str | None = None  # what a worker would need that none has
    module: str | None = None  # likewise, where the config names a function
    overlap: Overlap | None = None  # of its schedule, if targets are skipped: until it has ended, or (queue_one) begun
    keeps_firing: bool = False  # its schedule goes on, though nobody runs what it fires
    error_code: str | None = None  # of the last attempt that failed, or of the end
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class _Scene:
    """Everything that a waiting task's fate depends on."""

    task: Task
    now: datetime
    leader: NodeId | None
    crew: Crew
    ready: int
    config: TaskConfig | None
    running: int | None


@dataclass(slots=True)
class ExplainTask:
    """Say why a task is where it is."""

    tasks: TaskStore
    configs: ConfigStore
    coordinator: Coordinator
    global_rate: float | None = None  # may be changed at any time
    is_alone: bool = False  # all of Rota is this one process: another worker cannot join

    async def __call__(self, task_id: TaskId, tenant_id: TenantId) -> Explanation:
        """`NotFoundError` when there is no such task in the tenant."""
        task = await self.tasks.find(task_id, tenant_id)
        if task is None:
            raise NotFoundError("task", task_id)
        settled = _explain_settled(task)
        if settled is not None:
            return _outline(task, settled)
        now = await self.tasks.now()
        if task.state.due_at > now + CLOCK_SLACK:
            return _outline(task, (Reason.NOT_DUE, _tell_pause(task)))
        return self._explain_due(await self._look(task, now))

    async def _look(self, task: Task, now: datetime) -> _Scene:
        queue = self.coordinator.queue
        workers, depths = await self.coordinator.pool.list_alive(), await queue.depths()
        config = await self.configs.find(task.spec.tenant_id, task.spec.type)
        return _Scene(
            task=task,
            now=now,
            leader=await self.coordinator.election.find_leader(),
            crew=Crew.gather(workers, depths),
            ready=sum(number for level, number in depths.ready.items() if level >= task.state.priority),
            config=config,
            running=await self._count_running(config) if config is not None and config.max_concurrent else None,
        )

    async def _count_running(self, config: TaskConfig) -> int:
        number = 0
        after: TaskId | None = None
        for _ in range(MOST_PAGES):
            page = await self.tasks.list_running(after=after, limit=PAGE)
            number += sum(key_of(live) == (config.tenant_id, config.type) for live in page)
            if len(page) < PAGE:
                break
            after = page[-1].id
        return number

    def _explain_due(self, scene: _Scene) -> Explanation:
        config, task_type = scene.config, scene.task.spec.type
        reason, sentence = self._find_reason(scene)
        overlap, keeps_firing = _find_skipping(scene), self._keeps_firing(scene, reason)
        sentence += _tell_skipping(overlap) + (_tell_firing(task_type) if keeps_firing else "")
        executor, module = _find_lack(_executor_of(config)) if reason is Reason.NO_WORKER else (None, None)
        return replace(
            _outline(scene.task, (reason, sentence)),
            workers=scene.crew.count_for(task_type, _executor_of(config)),
            draining=scene.crew.count_draining(task_type, _executor_of(config)),
            room=scene.crew.room_for(task_type, _executor_of(config)),
            running=scene.running,
            max_concurrent=config.max_concurrent if config is not None else None,
            rate_per_second=config.rate_per_second if config is not None else None,
            global_rate=self.global_rate,
            ready=scene.ready,
            executor=executor,
            module=module,
            overlap=overlap,
            keeps_firing=keeps_firing,
        )

    def _find_reason(self, scene: _Scene) -> tuple[Reason, str]:
        task_type, crew, config = scene.task.spec.type, scene.crew, scene.config
        if scene.leader is None:
            return Reason.NO_LEADER, "No scheduler leads now; the next one to lead will go on with it."
        kind = task_type, _executor_of(config)
        workers = crew.count_for(*kind)
        if not workers:
            lack = (_tell_lack_alone if self.is_alone else _tell_lack)(*_find_lack(kind[1]))
            return Reason.NO_WORKER, f"No worker that is alive supports the type {task_type}{lack}"
        if config is not None and config.max_concurrent and (scene.running or 0) >= config.max_concurrent:
            text = f"{scene.running} of the type {task_type} run, and no more than {config.max_concurrent} may."
            return Reason.TYPE_LIMIT, text
        if not crew.room_for(*kind):
            return Reason.WORKERS_BUSY, _tell_busy(workers, crew.count_draining(*kind))
        if scene.now - scene.task.state.due_at > PROMPT:
            if config is not None and config.rate_per_second is not None:
                text = (
                    f"The type {task_type} may start {config.rate_per_second:g} times per second, and others are first."
                )
                return Reason.TYPE_RATE, text
            if self.global_rate is not None:
                text = f"At most {self.global_rate:g} tasks may start per second, and others are first."
                return Reason.GLOBAL_RATE, text
        return (
            Reason.QUEUED,
            f"It is in the queue and about to be granted; {scene.ready} are ready with it or before it.",
        )

    def _keeps_firing(self, scene: _Scene, reason: Reason) -> bool:
        """Whether there comes more of what nobody runs, where no worker can be added."""
        config = scene.config
        if not self.is_alone or reason is not Reason.NO_WORKER or config is None:
            return False
        return config.schedule is not None and config.can_fire


def _spell(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _executor_of(config: TaskConfig | None) -> str:
    return "" if config is None else needed_by(config)


def _find_lack(executor: str) -> tuple[str, str | None]:
    """The executor that a worker would need, and the module, where a config names a function of one."""
    if executor.startswith(OF_MODULE):
        return LOCAL, executor.removeprefix(OF_MODULE)
    return executor or LOCAL, None


def _tell_lack(executor: str, module: str | None) -> str:
    """What a worker would need, and how one comes by it."""
    if module is not None:
        types = types_by(functions_in(module))
        way = f"start one with --app {module}, or add {types} to the worker.types of one that has that app"
        return f", whose function is in the module {module}: {way}."
    if executor == LOCAL:
        way = "start one with --app and the file that has its function"
        return f": {way}, or name one in its config as executor.function, module:name."
    way = f"start one that has it, with * or {types_by(executor)} among its worker.types"
    return f", which needs the executor {executor}: {way}."


def _tell_lack_alone(executor: str, module: str | None) -> str:
    """The same where all of Rota is one process, as in `rota dev`."""
    alone = "all of Rota is one process here, which no other worker can join; start it"
    if module is not None:
        how = f"(rota dev {module}, or rota server --app {module})"
        return f", whose function is in the module {module}: {alone} with that {how}."
    if executor == LOCAL:
        return f": {alone} with the file that has its function (rota dev FILE.py, or rota server --app FILE.py)."
    return f", which needs the executor {executor}: {alone} with that, and * or {types_by(executor)} in worker.types."


def _tell_busy(workers: int, draining: int) -> str:
    who = f"All workers that support it ({workers}) are"
    if not draining:
        return f"{who} busy."
    way = "they take nothing new until they are resumed (rota worker resume ID)"
    return f"{who} draining: {way}." if draining == workers else f"{who} busy or, {draining} of them, draining: {way}."


def _find_skipping(scene: _Scene) -> Overlap | None:
    """By which rule it is in the way, if it is the last run of a schedule that skips meanwhile."""
    config, task = scene.config, scene.task
    if config is None or config.schedule is None or config.last_run != task.id or not config.can_fire:
        return None
    overlap = config.schedule.overlap
    is_in_the_way = overlap is Overlap.SKIP or (overlap is Overlap.QUEUE_ONE and task.state.status is PENDING)
    return overlap if is_in_the_way else None


def _tell_skipping(overlap: Overlap | None) -> str:
    if overlap is None:
        return ""
    until = "it has ended" if overlap is Overlap.SKIP else "it begins"
    return f" Until {until}, the targets of its schedule are skipped (overlap: {overlap})."


def _tell_firing(task_type: str) -> str:
    return f" Its schedule goes on meanwhile: rota schedule pause {task_type} ends that."


def _explain_settled(task: Task) -> tuple[Reason, str] | None:
    """Where a task is that does not wait for dispatch."""
    state = task.state
    if state.status.is_final:
        return Reason.ENDED, _tell_end(task)
    deadline = _spell(state.due_at)
    if state.is_deferred:
        text = f"Attempt {state.attempt} was begun elsewhere and waits for a callback, until {deadline} at most."
        return Reason.CALLBACK, text
    if state.status is PROCESSING:
        return Reason.RUNNING, f"Attempt {state.attempt} runs on worker {state.worker_id}, until {deadline} at most."
    if state.status is BLOCKED:
        return Reason.BLOCKED, "It waits for tasks that it depends on."
    return None


def _tell_pause(task: Task) -> str:
    """Of a task that is not due; one whose attempt came back without an end was perhaps none for its worker."""
    state, error, at = task.state, task.error, _spell(task.state.due_at)
    if state.status is RETRYING and error is not None:
        text = f", {error.message}" if error.message else ""
        return f"Attempt {state.attempt} failed with {error.code}{text}; the next is not before {at}."
    if state.status is PENDING and state.attempt:
        return f"Attempt {state.attempt} was given back by its worker, its log says why; the next is not before {at}."
    return f"It is not to start before {at}."


def _tell_end(task: Task) -> str:
    """How it ended, and why: the last error, and whether another try was left."""
    state, error = task.state, task.error
    if error is None:
        return f"It ended as {state.status}."
    tries = f" after {state.retry_count} of {task.spec.retry.max_retries} retries" if error.retryable else ""
    text = f": {error.message}" if error.message else ""
    code = "" if error.code == state.status.lower() else f", {error.code}"
    return f"It ended as {state.status}{tries}{code}{text}"


def _outline(task: Task, why: tuple[Reason, str]) -> Explanation:
    state = task.state
    reason, sentence = why
    return Explanation(
        task_id=task.id,
        status=state.status,
        reason=reason,
        sentence=sentence,
        due_at=None if state.status.is_final else state.due_at,
        attempt=state.attempt,
        worker_id=state.worker_id,
        error_code=task.error.code if task.error is not None else None,
        error_message=task.error.message if task.error is not None else None,
    )
