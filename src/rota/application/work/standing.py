"""This worker as the cluster is to see it: its present incarnation, how much it may hold, whether it drains."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerSettings
from rota.domain.checks import check_number
from rota.domain.ids import WorkerId
from rota.domain.worker import MAX_CAPACITY, Worker, WorkerOrders


class Standing:
    """Settings count for all incarnations of the worker, orders for the present one; the later of the two wins.

    The loops concerned are nudged at a change.
    """

    def __init__(
        self, settings: WorkerSettings, *, nudges: Sequence[Nudge], on_capacity: Callable[[int], None]
    ) -> None:
        self._settings = settings
        self._nudges = nudges
        self._on_capacity = on_capacity
        self._set_capacity = settings.capacity  # by the settings, as they are now
        self._followed = WorkerOrders()
        self._is_drained = False  # by order
        self._is_departing = False
        self.capacity = settings.capacity
        self.is_leaving = False
        self.is_misunderstood = False  # it drains, and was given something: the pool may not know
        self.worker: Worker | None = None  # None: not registered, or not any more

    @property
    def is_draining(self) -> bool:
        return self._is_drained or self._is_departing

    def compose(self, worker_id: WorkerId) -> Worker:
        """An incarnation as it is to be known now."""
        worker = self._settings.as_worker(worker_id)
        return replace(worker, capacity=self.capacity, is_draining=self.is_draining)

    def set_capacity(self, capacity: int) -> None:
        """The settings say so. Unless they have changed in this, an order still counts."""
        check_number("worker.capacity", capacity, least=1, most=MAX_CAPACITY)
        if capacity != self._set_capacity:
            self._set_capacity = capacity
            self._resize(capacity)
            self._change()

    def follow(self, orders: WorkerOrders) -> None:
        """Do what operators ask of this incarnation, as far as it is new."""
        if orders == self._followed:
            return
        if orders.capacity is not None and orders.capacity_number != self._followed.capacity_number:
            self._resize(orders.capacity)
        if orders.is_draining is not None:
            self._is_drained = orders.is_draining
        self._followed = orders
        self._change()

    def depart(self) -> None:
        """Drain for good: no order changes that."""
        self._is_departing = True
        self._change()

    def join(self, worker: Worker) -> None:
        """This incarnation is registered."""
        self.worker = worker
        self._change()

    def end(self) -> None:
        """The incarnation is over, and so are its orders; unless the worker leaves, the next one begins at once."""
        self.worker = None
        self._followed = WorkerOrders()
        self._is_drained = False
        self._resize(self._set_capacity)
        self._change()

    def leave(self) -> None:
        """It is over for good."""
        self.is_leaving = True
        self.worker = None

    def _resize(self, capacity: int) -> None:
        self.capacity = capacity
        self._on_capacity(capacity)

    def complain(self) -> None:
        """It was given something though it drains. The pool is told again, or it would be given that for ever."""
        self.is_misunderstood = True
        for nudge in self._nudges:
            nudge.give()

    def _change(self) -> None:
        if self.worker is not None:
            self.worker = self.compose(self.worker.id)
        for nudge in self._nudges:
            nudge.give()
