"""`rota.Rota`: the whole system inside a program.

    async with rota.Rota({"store": {"url": "sqlite:///jobs.db"}}) as app:
        handle = await app.submit("send_email", {"to": "ada@example.com"})
        task = await handle.wait("30s")

It plays every role by default, on an embedded store; with the settings of a cluster it is one more node of it. What it
is built from is imported when it is entered, so that `import rota` stays light.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from rota.domain.durations import parse_duration
from rota.domain.errors import ConflictError, InvalidError, NotFoundError
from rota.domain.ids import DEFAULT_TENANT, TaskId, parse_id
from rota.domain.log import LogEntry
from rota.domain.priority import parse_priority
from rota.domain.spelling import find_near
from rota.domain.submission import Submission
from rota.domain.task import TaskStatus
from rota.sdk.control import Duration
from rota.sdk.options import SubmitOptions, check_known
from rota.sdk.tasks import REGISTRY, TaskFunction, TaskRegistry, registry_of
from rota.sdk.views import TaskView, view_of

if TYPE_CHECKING:
    from rota.application.explain import Explanation
    from rota.application.node import Node
    from rota.application.submit import SubmitTasks
    from rota.config.registry import Registries
    from rota.config.wiring import Blueprint, Built

EVERY_ROLE = ("scheduler", "worker")


@dataclass(frozen=True, slots=True)
class Handle:
    """A submitted task."""

    id: str
    _app: "Rota"

    async def wait(self, timeout: Duration = "1m") -> TaskView:  # noqa: ASYNC109 the name users expect
        """The task when it has ended, in whatever way; `TimeoutError` when that takes longer."""
        return await self._app.wait(self.id, timeout)

    async def get(self) -> TaskView:
        """The task as it is now."""
        return await self._app.get(self.id)

    async def cancel(self, reason: str = "") -> TaskView:
        """End it, waiting or running."""
        return await self._app.cancel(self.id, reason=reason)


class Rota:
    """One node of a cluster, or all of it. Enter it, use it, leave it: leaving finishes what runs."""

    def __init__(
        self,
        settings: Mapping[str, Any] | str | Path | None = None,
        *,
        roles: Collection[str] = EVERY_ROLE,
        tasks: TaskRegistry | Iterable[TaskFunction[..., Any]] = REGISTRY,
        app: str | None = None,
        registries: "Registries | None" = None,
    ) -> None:
        """`settings` as in `rota.yaml`: a mapping, or the path of a file; None reads what the command line would.

        `tasks`: the functions that a worker here runs; without it, all that were decorated.
        """
        self._settings = settings
        self._role_names = (roles,) if isinstance(roles, str) else tuple(roles)
        self._task_registry = registry_of(tasks)
        self._app = app
        self._registries = registries
        self._stack = AsyncExitStack()
        self._built: Built | None = None
        self._plan: Blueprint | None = None
        self._open_desk: SubmitTasks | None = None

    @classmethod
    def of(cls, plan: "Blueprint") -> "Rota":
        """From what it is to be built of, for programs that replace parts of it."""
        made = cls()
        made._plan, made._task_registry = plan, plan.tasks
        return made

    async def __aenter__(self) -> "Rota":
        from rota.application.submit import SubmitTasks
        from rota.config.embedded import open_built, plan_for

        plan = self._plan or plan_for(self._settings, self._registries, app=self._app, tasks=self._task_registry)
        self._built = await self._stack.enter_async_context(open_built(plan, self._role_names))
        self._open_desk = SubmitTasks(self._node)
        self._stack.push_async_callback(self._open_desk.close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._built = self._open_desk = None
        await self._stack.__aexit__(kind, error, traceback)

    async def submit(self, type: str, payload: Any = None, **options: Unpack[SubmitOptions]) -> Handle:
        """Add a task. When this returns, it is durable: it will run, whatever dies."""
        wish = Submission(type=type, payload=payload, **_given(options))
        try:
            added = await self._desk.submit(wish)
        except InvalidError as error:
            raise self._tell_near(type, error) from error
        return Handle(str(added.task_id), self)

    async def submit_many(self, type: str, payloads: Iterable[Any], **options: Unpack[SubmitOptions]) -> list[Handle]:
        """Add tasks of one type, all or none."""
        given = _given(options)
        try:
            added = await self._desk.submit_many([Submission(type=type, payload=one, **given) for one in payloads])
        except InvalidError as error:
            raise self._tell_near(type, error) from error
        return [Handle(str(answer.task_id), self) for answer in added]

    async def get(self, task_id: str) -> TaskView:
        """A task by its id."""
        from rota.application.progress import find_progress

        task = await self._node.store.tasks.find(_id(task_id), DEFAULT_TENANT)
        if task is None:
            raise NotFoundError("task", task_id)
        return view_of(task, await find_progress(self._node.store.logs, task))

    async def wait(self, task_id: str, timeout: Duration = "1m") -> TaskView:  # noqa: ASYNC109 the same
        """The task when it has ended; `TimeoutError` when that takes longer."""
        most = parse_duration("timeout", timeout)
        task = await self._get_built().roles.watch.wait(_id(task_id), DEFAULT_TENANT, most=most)
        if not task.state.status.is_final:
            raise TimeoutError(f"task {task_id} is still {task.state.status} after {most}")
        return view_of(task)

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskView:
        """End a task, waiting or running."""
        from rota.application.steer import SteerTasks

        return view_of(await SteerTasks(self._node).cancel(_id(task_id), DEFAULT_TENANT, reason=reason))

    async def reprioritise(self, task_id: str, priority: int | str) -> TaskView:
        """Change how urgent a waiting task is."""
        from rota.application.steer import SteerTasks

        level = parse_priority(priority)
        return view_of(await SteerTasks(self._node).amend(_id(task_id), DEFAULT_TENANT, priority=level))

    async def logs(self, task_id: str, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        """The record of a task after a place in it (`seq`): its transitions and its own lines, in order."""
        await self.get(task_id)
        return await self._node.store.logs.read(_id(task_id), after=after, limit=limit)

    async def retry(self, task_id: str) -> Handle:
        """Do the work of an ended task again, as a new task."""
        task = await self._node.store.tasks.find(_id(task_id), DEFAULT_TENANT)
        if task is None:
            raise NotFoundError("task", task_id)
        return Handle(str((await self._desk.rerun(task)).task.id), self)

    async def count(self) -> dict[TaskStatus, int]:
        """How many tasks are in each state; states without tasks are left out."""
        return await self._node.store.tasks.count_by_status(DEFAULT_TENANT)

    async def explain(self, task_id: str) -> "Explanation":
        """Why a task is where it is."""
        return await self._get_built().explain(_id(task_id), DEFAULT_TENANT)

    def lock(
        self, name: str, ttl: Duration = "30s", *, timeout: Duration | None = None
    ) -> AbstractAsyncContextManager[int]:
        """Hold a lock of the cluster while a block runs: `async with app.lock("nightly-import") as fence:`

        It is renewed by itself, and runs out after `ttl` when this process dies. A block under which it is lost all the
        same is cancelled, and `LockLostError` raised. `timeout`: how long to wait while another holds it, until
        `TimeoutError`; None: as long as it takes. Advice alone: what must not happen twice checks the fence, a number
        above that of all who held the lock before. The object may be kept, shared and entered again, by one block at a
        time; not within itself."""
        from rota.application.hold import Lock

        most = None if timeout is None else parse_duration("timeout", timeout)
        return Lock(node=self._node, name=name, ttl=parse_duration("ttl", ttl), most=most)

    def _tell_near(self, task_type: str, error: InvalidError) -> InvalidError:
        """What is wrong with a submission; of a type that nobody knows, which of those decorated here may be meant."""
        if error.field.rpartition(".")[2] != "type":
            return error
        near = find_near(task_type, [function.definition.type for function in self._task_registry])
        if near is None or near == task_type:
            return error
        return InvalidError("type", f"there is no task config for {task_type!r}; did you mean {near!r}?")

    @property
    def _desk(self) -> "SubmitTasks":
        self._get_built()
        if self._open_desk is None:
            raise _not_running()
        return self._open_desk

    @property
    def _node(self) -> "Node":
        return self._get_built().roles.node

    def _get_built(self) -> "Built":
        if self._built is None:
            raise _not_running()
        running = self._built.running
        if running is not None and running.done():
            failure = None if running.cancelled() else running.exception()
            raise ConflictError(f"Rota has ended by itself and must be started anew: {failure}") from failure
        return self._built


def _not_running() -> ConflictError:
    return ConflictError("Rota is not running; use it inside `async with rota.Rota(...) as app:`")


def _given(options: SubmitOptions) -> dict[str, Any]:
    """The options as a submission has them."""
    check_known(options, SubmitOptions)
    given: dict[str, Any] = dict(options)
    for key in ("delay", "timeout"):
        if key in given:
            given[key] = parse_duration(key, given[key])
    return given


def _id(text: str) -> TaskId:
    return TaskId(parse_id("id", str(text)))
