"""How the local executor behaves; plain values, checked when the configuration is read."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    capacity: int = 10  # processes and threads at once, each kind; the worker never asks for more attempts than this
    async_grace: timedelta = timedelta(seconds=5)  # for a coroutine between its cancellation and being given up
    grace: timedelta = timedelta(seconds=2)  # for a process between the soft signal and the kill; for a thread, too
    start_timeout: timedelta = timedelta(seconds=30)  # for a process to start and import the app
    idle_after: timedelta = timedelta(seconds=60)  # an idle process ends, but for one that is kept warm
    jobs_per_process: int | None = 1000  # then it is replaced: what user code leaks does not grow for ever
    log_limit: int = 1024 * 1024  # bytes of an attempt's log; the worker keeps no more
    memory_limit: int | None = None  # bytes of address space of a process
    modules: tuple[str, ...] = ()  # packages whose functions a task config may name, besides the app's own
