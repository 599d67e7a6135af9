"""What is left of a run of `rota bench` that ends before its time: it is cancelled, unless that is interrupted too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rota.domain.errors import RotaError
from rota.interfaces.cli.errors import CheckFailedError

if TYPE_CHECKING:
    from rota.client.blocking import Client

TYPE = "sample_noop"
MARK = "bench"  # the metadata by which the tasks of a run are found again
PAGE = 1000
MOST_SWEEPS = 5  # a batch that was on its way when the run was interrupted comes after the first
LIVE = ("PENDING", "PROCESSING", "RETRYING")
CREATED, ENDED, READ, CANCELLED, LEFT = "created", "ended", "read", "cancelled", "left"

Tell = Callable[[str, int], None]  # of which of these there are how many by now


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The tasks of one run that have not ended."""

    client: "Client"
    mark: str
    tell: Tell

    def cancel(self) -> None:
        """As far as the server lets us: what made us stop is worth more than what fails now."""
        click.echo("cancelling what has not run yet; Ctrl-C leaves it as it is", err=True)
        cancelled = 0
        try:
            for _ in range(MOST_SWEEPS):
                changed = self._sweep(cancelled)
                cancelled += changed
                if not changed:
                    break
        except RotaError as error:
            click.echo(f"what is left of the run was not cancelled: {error}", err=True)
        except KeyboardInterrupt:
            self._leave()
        if cancelled:
            verb = "was left is" if cancelled == 1 else "were left are"
            click.echo(f"{count_tasks(cancelled)} that {verb} cancelled", err=True)

    def _sweep(self, before: int) -> int:
        return self.client.tasks.cancel_all(
            type=TYPE,
            status=LIVE,
            metadata={MARK: self.mark},
            reason="rota bench ended before them",
            progress=lambda done: self.tell(CANCELLED, before + done.changed),
        ).changed

    def _leave(self) -> None:
        """Say what stays, if anything does."""
        number = self._count()
        if number == 0:
            return
        told = "what is left of the run stays" if number is None else f"of the run {count_tasks(number)} will still run"
        fix = f"rota task cancel --type {TYPE} --metadata {MARK}={self.mark} --yes"
        raise CheckFailedError(f"interrupted; {told}", fix=fix) from None

    def _count(self) -> int | None:
        """How many, unless that is interrupted too, or the server is away."""
        number = 0
        try:
            for _ in self.client.tasks.list(page_size=PAGE, type=TYPE, status=LIVE, metadata={MARK: self.mark}):
                number += 1
                if number % PAGE == 0:
                    self.tell(LEFT, number)
        except (RotaError, KeyboardInterrupt):
            return None
        return number


def count_tasks(number: int) -> str:
    """In words: `1 task`."""
    return f"{number:,} task{'' if number == 1 else 's'}"
