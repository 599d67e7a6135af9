"""Which of the waiting tasks may go now: a pure look at the room of their workers and of their limits."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.application.crew import Crew
from rota.application.parking import Key, key_of
from rota.application.throttle import Throttle
from rota.domain.task import LiveTask
from rota.domain.waiting import Reason


@dataclass(slots=True)
class _Gate:
    """How many more of a type may go in this round, and why no more than that."""

    left: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Admitted:
    """Those that may go, in order, and those that may not."""

    admitted: list[LiveTask] = field(default_factory=list)
    refused: list[tuple[LiveTask, Reason]] = field(default_factory=list)


def admit(waiting: Iterable[LiveTask], crew: Crew, *, throttle: Throttle, rate: float | None) -> Admitted:
    """Go through the tasks in order. A type that is held up holds up nobody else."""
    whole = throttle.whole_room(rate)
    most, overall = min((crew.room, Reason.WORKERS_BUSY), (whole, Reason.GLOBAL_RATE))
    gates: dict[Key, _Gate] = {}
    result = Admitted()
    admitted, refused = result.admitted, result.refused
    for live in waiting:
        key = key_of(live)
        gate = gates.get(key)
        if gate is None:
            gate = gates[key] = _Gate(*room_of(key, crew, throttle=throttle))
        has_place = gate.reason is Reason.TYPE_LIMIT and throttle.is_counted(live)
        if gate.left <= 0 and not has_place:
            refused.append((live, gate.reason))
        elif len(admitted) >= most:
            refused.append((live, overall))
        else:
            gate.left -= 0 if has_place else 1
            admitted.append(live)
    return result


def room_of(key: Key, crew: Crew, *, throttle: Throttle) -> tuple[int, Reason]:
    """How many of a type may go, and what it is that lets no more go."""
    kind = key[1], throttle.executor_of(key)
    if not crew.count_for(*kind):
        return 0, Reason.NO_WORKER
    limited, limit = throttle.room(key)
    room = crew.room_for(*kind)
    return (limited, limit) if limited < room else (room, Reason.WORKERS_BUSY)
