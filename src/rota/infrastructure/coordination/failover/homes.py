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
    """Kept by side: mostly nobody is on the one that is not in use, and then there is nothing to look up."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._stays: dict[Side, dict[WorkerId, _Stay]] = {switch.primary: {}, switch.fallback: {}}
        self._own: set[WorkerId] = set()  # those that are heard through this process itself

    @property
    def are_all_here(self) -> bool:
        """Whether everybody is reached on the side in use."""
        return not self._stays[self._switch.other]

    def settle(self, worker_id: WorkerId, side: Side) -> None:
        """A worker of this process is on this side, and says so itself."""
        for other, stays in self._stays.items():
            if other is not side and worker_id in stays:
                stays[worker_id].since = None
        self._own.add(worker_id)
        self._note(side, (worker_id,))

    def is_own(self, worker_id: WorkerId) -> bool:
        """Whether it is a worker of this process."""
        return worker_id in self._own

    def list_seen(self, side: Side, worker_ids: Collection[WorkerId]) -> None:
        """These, and no others, are listed on a side."""
        self._note(side, worker_ids)
        stays = self._stays[side]
        for worker_id in stays.keys() - worker_ids:
            stays[worker_id].since = None
        self._forget_old()

    def forget(self, worker_ids: Collection[WorkerId]) -> None:
        for worker_id in worker_ids:
            for stays in self._stays.values():
                stays.pop(worker_id, None)
            self._own.discard(worker_id)

    def find(self, worker_id: WorkerId) -> Side:
        """The side to reach a worker on: its home, or the side in use if home is unknown or silent."""
        active = self._switch.active
        if worker_id not in self._stays[self._switch.other]:
            return active  # nearly always
        found = {side: stays[worker_id].since for side, stays in self._stays.items() if worker_id in stays}
        present = {side: since for side, since in found.items() if since is not None}
        home = max(present, key=lambda side: (present[side], side is active), default=active)
        return home if self._switch.may_ask(home) else active

    def list_places(self, worker_id: WorkerId) -> Sequence[Side]:
        """Where something of a worker may lie: its home first."""
        home = self.find(worker_id)
        other = self._switch.primary if home is self._switch.fallback else self._switch.fallback
        stay = self._stays[other].get(worker_id)
        has_stayed = stay is not None and stay.last > self._find_limit()
        return (home, other) if has_stayed or self._switch.is_in_doubt else (home,)

    def is_anyone_at(self, side: Side) -> bool:
        """Whether somebody must be reached on this side."""
        return any(self.find(worker_id) is side for worker_id in self._stays[side])

    def _note(self, side: Side, worker_ids: Collection[WorkerId]) -> None:
        now, stays = self._switch.clock.monotonic(), self._stays[side]
        for worker_id in worker_ids:  # without calls: every look at the workers comes here with all of them
            stay = stays.get(worker_id)
            if stay is None:
                stays[worker_id] = _Stay(now, now)
                continue
            stay.last = now
            if stay.since is None:
                stay.since = now

    def _find_limit(self) -> float:
        """What was seen last before this was seen long ago."""
        return self._switch.clock.monotonic() - IN_DOUBT_FOR.total_seconds()

    def _forget_old(self) -> None:
        limit, sides = self._find_limit(), self._stays.values()
        recent = {worker_id for stays in sides for worker_id, stay in stays.items() if stay.last > limit}
        self.forget([worker_id for stays in sides for worker_id in stays if worker_id not in recent])
        for stays in sides:
            for worker_id in [one for one, stay in stays.items() if stay.since is None and stay.last <= limit]:
                del stays[worker_id]
