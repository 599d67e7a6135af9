"""The executors that this worker has, by the name that task configs call them."""

from collections.abc import Mapping

from rota.application.ports.executor import Executor
from rota.domain.task_config import TaskConfig


class ExecutorRegistry:
    def __init__(self, executors: Mapping[str, Executor]) -> None:
        self._executors = dict(executors)

    def find(self, config: TaskConfig) -> Executor | None:
        """Who runs tasks of this config here. None: nobody; hand the task back."""
        executor = self._executors.get(config.executor_type)
        return executor if executor is not None and executor.supports(config) else None

    async def start(self) -> None:
        for executor in self._executors.values():
            await executor.start()

    async def close(self) -> None:
        """End all of them, those started last first."""
        for executor in reversed(self._executors.values()):
            await executor.close()
