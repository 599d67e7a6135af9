"""This worker as the cluster is to see it: its present incarnation, how much it may hold, whether it drains."""

from collections.abc import Sequence
from dataclasses import replace

from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerSettings
from rota.domain.checks import check_number
from rota.domain.ids import WorkerId
from rota.domain.worker import MAX_CAPACITY, Worker


class Standing:
    """What is asked of the worker is kept over all its incarnations; the loops concerned are nudged at a change."""

    def __init__(self, settings: WorkerSettings, *, nudges: Sequence[Nudge]) -> None:
        self._settings = settings
        self._nudges = nudges
        self.capacity = settings.capacity
        self.is_draining = False
        self.is_leaving = False
        self.worker: Worker | None = None  # None: not registered, or not any more

    def compose(self, worker_id: WorkerId) -> Worker:
        """An incarnation as it is to be known now."""
        worker = self._settings.as_worker(worker_id)
        return replace(worker, capacity=self.capacity, is_draining=self.is_draining)

    def set_capacity(self, capacity: int) -> None:
        self.capacity = check_number("worker.capacity", capacity, least=1, most=MAX_CAPACITY)
        self._change()

    def set_draining(self, is_draining: bool) -> None:
        self.is_draining = is_draining
        self._change()

    def join(self, worker: Worker) -> None:
        """This incarnation is registered."""
        self.worker = worker
        self._change()

    def end(self) -> None:
        """The incarnation is over; unless the worker leaves, the next one begins at once."""
        self.worker = None
        self._change()

    def leave(self) -> None:
        """It is over for good."""
        self.is_leaving = True
        self.worker = None

    def _change(self) -> None:
        if self.worker is not None:
            self.worker = self.compose(self.worker.id)
        for nudge in self._nudges:
            nudge.give()
