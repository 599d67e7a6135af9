"""The gRPC executor of a worker that may never need it: the library takes 0.2 s and 37 MB, so it comes with a call."""

import asyncio
from collections.abc import Callable

from rota.application.ports.executor import Executor, Job, Reports
from rota.domain.attempt import Outcome
from rota.domain.task_config import TaskConfig


class LazyGrpcExecutor:
    def __init__(self, build: Callable[[], Executor]) -> None:
        self._build = build
        self._built: Executor | None = None
        self._building = asyncio.Lock()

    async def start(self) -> None:
        """Nothing is opened before it is needed."""

    def supports(self, config: TaskConfig) -> bool:
        return config.executor_type == "grpc"

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        if self._built is None:
            async with self._building:
                if self._built is None:
                    self._built = await asyncio.to_thread(self._build)  # an import would hold up the loop
        return await self._built.execute(job, reports)

    async def close(self) -> None:
        if self._built is not None:
            await self._built.close()
