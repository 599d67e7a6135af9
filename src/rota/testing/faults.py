"""Faults to order, at the border of any port: a plan says which call fails next, and how.

    faults = Faults()
    coordinator = faulty_coordinator(real, faults)
    faults.inject("queue.push", Fault.EXECUTE_AND_TIMEOUT)

The caller sees the same "unavailable" for every fault but a refusal, as it would in production: what differs is whether
the call took effect, and that is what it must not need to know.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from rota.domain.errors import RotaError, UnavailableError

T = TypeVar("T")


class Fault(StrEnum):
    """How a call goes wrong."""

    TIMEOUT = "no answer in time"  # the request was lost: nothing happened
    EXECUTE_AND_TIMEOUT = "no answer in time, though it was done"  # the answer was lost: it happened
    GONE = "the connection is gone"
    READ_ONLY = "the server takes no writes"  # a former primary after a failover
    DEADLOCK = "deadlock"  # stores only: rolled back
    REFUSED = "the server refuses the statement"  # told as a defect, not as an absence

    @property
    def takes_effect(self) -> bool:
        return self is Fault.EXECUTE_AND_TIMEOUT


class Faults:
    """A plan of faults, used up in the order they were injected, each operation on its own."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[Fault]] = {}
        self._lasting: dict[str, Fault] = {}

    def inject(self, operation: str, fault: Fault, *, times: int | None = 1) -> None:
        """Let the next calls of an operation such as `queue.push` fail; with `times=None`, all until `heal`."""
        if times is None:
            self._lasting[operation] = fault
        else:
            self._planned.setdefault(operation, deque()).extend([fault] * times)

    def heal(self) -> None:
        """Drop what is left of the plan."""
        self._planned.clear()
        self._lasting.clear()

    @property
    def pending(self) -> Mapping[str, int]:
        """What was planned by number and has not happened: not empty at the end of a test that proved nothing."""
        return {operation: len(faults) for operation, faults in self._planned.items() if faults}

    async def around(
        self, operation: str, call: Callable[[], Awaitable[T]], *, unavailable: type[UnavailableError]
    ) -> T:
        """Make a call, or let it fail as planned."""
        fault = self._next_fault(operation)
        if fault is None:
            return await call()
        if fault.takes_effect:
            await call()
        error = RotaError if fault is Fault.REFUSED else unavailable
        raise error(f"{operation}: {fault}")

    def _next_fault(self, operation: str) -> Fault | None:
        planned = self._planned.get(operation)
        return planned.popleft() if planned else self._lasting.get(operation)
