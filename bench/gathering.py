"""Run the parts of a benchmark one after the other, and write down what they find."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import SubprocessError

from asyncpg.exceptions import InterfaceError, PostgresError

from bench.outcome import UNFINISHED, Figure, Outcome
from bench.usage import OthersWatch
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


TOGETHER_S = 0.05  # what comes at such a distance was measured together


def gather(parts: Mapping[str, Part], outcome: Outcome, *, folder: Path, say: Callable[[str], None]) -> None:
    """What a part found before it failed is kept, and the failure is told. After each part it is written what there is
    by then: a run that is ended early leaves that, under a name of its own."""
    outcome.left = list(parts)
    began_at = time.monotonic()
    for number, (name, measure) in enumerate(parts.items(), start=1):
        say(f"[{number} of {len(parts)}] {name}")
        os.sync()  # what the parts before have left to be written would be waited for here
        try:
            for figure in _beside_others(measure):
                outcome.add(figure)
            outcome.left.remove(name)
        except FAILURES as exc:
            said = f"{type(exc).__name__}: {exc}"
            say(f"{name}: {said}")
            outcome.add(Figure(name, "failed", 0.0, "", note=said[:300]))
        finally:
            outcome.surroundings["took"] = f"{(time.monotonic() - began_at) / 60:.0f} min"
            outcome.write(folder)
    if not outcome.left:
        for path in folder.glob(f"{UNFINISHED}.*"):  # of this run, before it was finished
            path.unlink()


def _beside_others(measure: Part) -> Iterator[Figure]:
    """Each with what others used of the machine since the one before it, or meanwhile where the part says so itself."""
    watch, others = OthersWatch(), None
    for figure in measure():
        if others is None or watch.seconds > TOGETHER_S:
            others, watch = watch.share(), OthersWatch()
        yield replace(figure, others=max(figure.others, others))
