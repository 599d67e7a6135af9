"""A coordinator or store that can be cut off as a whole, in the middle of a wait too."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.domain.errors import UnavailableError
from rota.testing.faults import Faults

T = TypeVar("T")


class Outage(Faults):
    """Faults to order, and an outage of everything at once, which ends the calls under way."""

    def __init__(self, *, is_out: bool = False) -> None:
        super().__init__()
        self.calls = 0  # how many were made, answered or not
        self._called = asyncio.Event()
        self._out = asyncio.Event()
        self._fix = ""
        if is_out:
            self._out.set()

    def begin(self, *, fix: str = "") -> None:
        """With a `fix` it is no outage but a refusal, which ends when somebody does that."""
        self._fix = fix
        self._out.set()

    def end(self) -> None:
        self._out.clear()

    async def wait_for_calls(self, count: int) -> None:
        """Until so many calls were made in all."""
        while self.calls < count:
            self._called.clear()
            await self._called.wait()

    async def around(
        self, operation: str, call: Callable[[], Awaitable[T]], *, unavailable: type[UnavailableError]
    ) -> T:
        self.calls += 1
        self._called.set()
        if self._out.is_set():
            raise unavailable(f"{operation}: cut off", fix=self._fix)
        working = asyncio.ensure_future(super().around(operation, call, unavailable=unavailable))
        cut = asyncio.ensure_future(self._out.wait())
        try:
            await asyncio.wait((working, cut), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise unavailable(f"{operation}: cut off in the middle")
            return working.result()
        finally:
            for one in (working, cut):
                one.cancel()
            await asyncio.gather(working, cut, return_exceptions=True)
