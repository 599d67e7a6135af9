"""What processes use, by what Linux says of them: CPU time and memory, with all their descendants."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # which clock of a process, in the number that Linux makes of a process and a clock
MOST_OF_OTHERS = 0.15  # of the machine, with what the kernel does; more, and a figure says little
OWN, REAPED = slice(11, 13), slice(13, 15)  # of what follows the name in /proc/PID/stat: user and system time


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, those that ended and were waited for too."""
    spent = _read(pid)
    ticks = sum(map(int, [*spent[OWN], *spent[REAPED]])) if spent else 0
    return ticks / TICKS + sum(map(cpu_seconds, children_of(pid)))


def precise_cpu_seconds(pid: int) -> float:
    """CPU time of a process alone, to the nanosecond: for what is over before the clock of `cpu_seconds` has ticked."""
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def memory_bytes(pid: int) -> int:
    """Memory of a process and its descendants; what several of them share counts once (the proportional set size)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended, or it belongs to another user
        return 0
    own = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
    return own + sum(map(memory_bytes, children_of(pid)))


def children_of(pid: int) -> list[int]:
    """Those that it started and that still run."""
    return [child for child, parent in _parents() if parent == pid]


def per_task(before: Mapping[str, float], after: Mapping[str, float], *, tasks: int) -> dict[str, float]:
    """Microseconds of CPU that each process spent on a task."""
    return {name: (after[name] - before.get(name, 0.0)) / tasks * 1e6 for name in after}


@dataclass(slots=True)
class MachineWatch:
    """How much of the machine somebody else used, and how much nobody did, while something was measured.

    A figure that was taken beside others is worth little: this says so."""

    _began: tuple[float, float] = field(default_factory=lambda: _read_machine())
    _began_at: float = field(default_factory=time.monotonic)

    def read(self, own: float) -> "Machine":
        """`own` are the CPU seconds that what is measured has used since."""
        busy, idle = (now - then for now, then in zip(_read_machine(), self._began, strict=True))
        whole = max((time.monotonic() - self._began_at) * (os.cpu_count() or 1), 0.01)
        return Machine(max(busy - own, 0.0) / whole, min(idle / whole, 1.0))


@dataclass(slots=True)
class OthersWatch:
    """How much of the machine others use while this process, with all that descends from it, measures."""

    _machine: MachineWatch = field(default_factory=MachineWatch)
    _own: float = field(default_factory=lambda: cpu_seconds(os.getpid()))
    _began_at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_at

    def share(self) -> float:
        return self._machine.read(cpu_seconds(os.getpid()) - self._own).others

    def spell(self) -> str:
        """For whoever judges what was measured."""
        share = self.share()
        verdict = ": what was measured says little, whether or not it kept to its bars" * (share > MOST_OF_OTHERS)
        return f"others used {share:.0%} of the machine meanwhile{verdict}"


class Machine(NamedTuple):
    """Shares of all cores."""

    others: float
    idle: float


def _read_machine() -> tuple[float, float]:
    """CPU seconds so far: used, or stolen by other machines on the same hardware; and not used."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICKS, idle / TICKS


def _parents() -> Iterable[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _read(int(entry.name))):
            yield int(entry.name), int(fields[1])


def _read(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
