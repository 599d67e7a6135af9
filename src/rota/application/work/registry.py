"""The executors that this worker has, by the name that task configs call them."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import structlog

from rota.application.ports.executor import Executor, SwiftExecutor
from rota.domain.task_config import TaskConfig

MOST_COMPLAINTS = 1000  # types that were said to be unknown, once each

log = structlog.get_logger(__name__)


class ExecutorRegistry:
    def __init__(self, executors: Mapping[str, Executor], *, resize: Callable[[int], None] = lambda _: None) -> None:
        self._executors = dict(executors)
        self._swift = {name: one for name, one in executors.items() if isinstance(one, SwiftExecutor)}
        self.resize = resize  # tells those that hold something for each slot what the worker's capacity is now
        self._complained: set[str] = set()

    def find(self, config: TaskConfig) -> Executor | None:
        """Who runs tasks of this config here. None: nobody; hand the task back.

        Raises whatever an executor raises that cannot make sense of the config."""
        executor = self._executors.get(config.executor_type)
        if executor is not None and executor.supports(config):
            return executor
        self.complain(config.type, executor=config.executor_type)
        return None

    def find_swift(self, config: TaskConfig) -> SwiftExecutor | None:
        """Who may be able to begin tasks of this config at once."""
        return self._swift.get(config.executor_type)

    def complain(self, task_type: str, *, executor: str = "") -> None:
        """Say, once for each type, that its tasks cannot run here."""
        if task_type not in self._complained and len(self._complained) < MOST_COMPLAINTS:
            self._complained.add(task_type)
            log.warning("worker.unknown_type", type=task_type, executor=executor)

    async def start(self) -> None:
        for executor in self._executors.values():
            await executor.start()

    async def close(self) -> None:
        """End all of them, those started last first, also when one of them raises."""
        async with AsyncExitStack() as stack:
            for executor in self._executors.values():
                stack.push_async_callback(executor.close)
