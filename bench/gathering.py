"""Run the parts of a benchmark one after the other, and write down what they find."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import SubprocessError

from asyncpg.exceptions import InterfaceError, PostgresError

from bench.outcome import UNFINISHED, Figure, Outcome
from bench.usage import MachineWatch, cpu_seconds
from rota.domain.errors import RotaError

Part = Callable[[], Iterator[Figure]]

# What a server, a process or a peer may do: refuse, be late, end. A mistake in the benchmark itself is not among them.
FAILURES = (
    RuntimeError,
    AssertionError,
    OSError,
    ValueError,
    SubprocessError,
    RotaError,
    PostgresError,
    InterfaceError,
)


def gather(parts: Mapping[str, Part], outcome: Outcome, *, folder: Path, say: Callable[[str], None]) -> None:
    """What a part found before it failed is kept, and the failure is told. After each part it is written what there is
    by then: a run that is ended early leaves that, under a name of its own."""
    outcome.left = list(parts)
    for number, (name, measure) in enumerate(parts.items(), start=1):
        say(f"[{number} of {len(parts)}] {name}")
        watch, before = MachineWatch(), cpu_seconds(os.getpid())
        try:
            for figure in measure():
                others = watch.read(cpu_seconds(os.getpid()) - before).others  # all that is measured descends from here
                outcome.add(replace(figure, others=max(figure.others, others)))
            outcome.left.remove(name)
        except FAILURES as exc:
            said = f"{type(exc).__name__}: {exc}"
            say(f"{name}: {said}")
            outcome.add(Figure(name, "failed", 0.0, "", note=said[:300]))
        finally:
            outcome.write(folder)
    if not outcome.left:
        for path in folder.glob(f"{UNFINISHED}.*"):  # of this run, before it was finished
            path.unlink()
