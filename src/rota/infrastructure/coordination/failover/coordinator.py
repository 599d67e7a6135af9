"""One coordinator made of two: a primary (Redis), and a fallback on the store's database while the primary is away.

It knows the two by their port alone. Each process decides for itself which one it uses (`switch.py`), so for a while
two processes may use different ones: a worker that lost its way to Redis, a leader that restarted first. What follows
from that, and why no task is lost or run twice:

- **Two leaders.** Nodes on different sides may each win a lease. That does no harm: every grant is a compare-and-set in
  the store, and what one leader granted is stale for the other. Nor does it last: a leader's term is issued by the
  store, which has one row for both sides, and `TermStore.confirm` refuses all but the newest. The older leader learns
  that with its next renewal and steps down, and a mark on the fallback keeps it from coming back while the primary is
  led (`election.py`).
- **Two memories.** Neither side knows what was queued on the other. The store knows all of it: after a switch there is
  no generation until the queues were rebuilt from there (`queue.py`). What is then in both memories is granted once.
- **Workers on either side.** The pool is read from both, and work is handed over where a worker beats (`homes.py`).
  A worker that has moved still looks where it came from for a minute (`deliveries.py`).
- **Locks** by name are on the fallback alone, whichever side is in use. Two processes that use different sides would
  both hold the same one, and fences of two clocks cannot be compared. So a switch ends none.
- **Repeats.** The failing call is made again on the fallback, though it may have taken effect on the primary.
  Everything in the port may be repeated; what a `take` removed from a queue is found by the rebuild of the other.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.infrastructure.coordination.failover.deliveries import FailoverDeliveries
from rota.infrastructure.coordination.failover.election import FailoverElection
from rota.infrastructure.coordination.failover.homes import Homes
from rota.infrastructure.coordination.failover.pool import FailoverWorkerPool
from rota.infrastructure.coordination.failover.queue import FailoverTaskQueue
from rota.infrastructure.coordination.failover.signals import FailoverSignals
from rota.infrastructure.coordination.failover.switch import Switch


def _tell_nobody(is_fallback: bool) -> None:
    """The switch logs and measures; not everyone has more to do."""


@asynccontextmanager
async def failover_coordinator(
    primary: Coordinator,
    fallback: Coordinator,
    *,
    loops: Loops,
    on_switch: Callable[[bool], None] = _tell_nobody,
) -> AsyncIterator[Coordinator]:
    """The two as one, while the context is entered. They are closed by who opened them, afterwards.

    `on_switch` is called with whether the fallback is used now, at the moment of the switch; it must not block or
    raise."""
    switch = Switch(primary, fallback, loops=loops, on_switch=on_switch)
    homes = Homes(switch)
    async with switch.watched():
        yield Coordinator(
            election=FailoverElection(switch),
            pool=FailoverWorkerPool(switch, homes),
            queue=FailoverTaskQueue(switch, homes),
            deliveries=FailoverDeliveries(switch, homes),
            signals=FailoverSignals(switch),
            locks=fallback.locks,
        )
