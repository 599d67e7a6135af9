"""Where each worker is to be found: on the side where it registered and beats.

Processes may see different things: a worker that is cut off from the primary only beats on the fallback, while the
leader still uses the primary. So the leader notes on which side it finds whom, and hands work over there. A worker that
moves is listed on both sides until its old lease runs out; the side where it appeared last is its home. For a minute
after it left a side, that side counts as a place where something of it may still lie.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.failover.switch import IN_DOUBT_FOR, Side, Switch


@dataclass(slots=True)
class _Stay:
    last: float
    since: float | None  # None when it is not there any more


class Homes:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._stays: dict[WorkerId, dict[Side, _Stay]] = {}
        self._own: set[WorkerId] = set()  # those that are heard through this process itself

    def settle(self, worker_id: WorkerId, side: Side) -> None:
        """A worker of this process is on this side, and says so itself."""
        for other, stay in self._stays.get(worker_id, {}).items():
            if other is not side:
                stay.since = None
        self._own.add(worker_id)
        self._stay(worker_id, side)

    def is_own(self, worker_id: WorkerId) -> bool:
        """Whether it is a worker of this process."""
        return worker_id in self._own

    def list_seen(self, side: Side, worker_ids: Collection[WorkerId]) -> None:
        """These, and no others, are listed on a side."""
        for worker_id in worker_ids:
            self._stay(worker_id, side)
        for worker_id, stays in self._stays.items():
            if side in stays and worker_id not in worker_ids:
                stays[side].since = None
        self._forget_old()

    def forget(self, worker_ids: Collection[WorkerId]) -> None:
        for worker_id in worker_ids:
            self._stays.pop(worker_id, None)
            self._own.discard(worker_id)

    def find(self, worker_id: WorkerId) -> Side:
        """The side to reach a worker on: its home, or the side in use if home is unknown or silent."""
        stays = self._stays.get(worker_id, {})
        active = self._switch.active
        if len(stays) == 1 and active in stays:
            return active  # nearly always; every batch asks for each of its workers
        present = {side: stay.since for side, stay in stays.items() if stay.since is not None}
        home = max(present, key=lambda side: (present[side], side is active), default=active)
        return home if self._switch.may_ask(home) else active

    def list_places(self, worker_id: WorkerId) -> Sequence[Side]:
        """Where something of a worker may lie: its home first."""
        home = self.find(worker_id)
        other = self._switch.primary if home is self._switch.fallback else self._switch.fallback
        has_stayed = self._is_recent(self._stays.get(worker_id, {}).get(other))
        return (home, other) if has_stayed or self._switch.is_in_doubt else (home,)

    def is_anyone_at(self, side: Side) -> bool:
        """Whether somebody must be reached on this side."""
        return any(side in stays and self.find(worker_id) is side for worker_id, stays in self._stays.items())

    def _stay(self, worker_id: WorkerId, side: Side) -> None:
        now = self._switch.clock.monotonic()
        stay = self._stays.setdefault(worker_id, {}).setdefault(side, _Stay(now, None))
        stay.last = now
        if stay.since is None:
            stay.since = now

    def _is_recent(self, stay: _Stay | None) -> bool:
        return stay is not None and self._switch.clock.monotonic() - stay.last < IN_DOUBT_FOR.total_seconds()

    def _forget_old(self) -> None:
        gone = [worker_id for worker_id, stays in self._stays.items() if not any(map(self._is_recent, stays.values()))]
        self.forget(gone)
