"""A histogram for figures that every task adds to: one lock and one search in a sorted row for each.

That of prometheus_client takes two locks and looks at one bucket after the other, and for a new series, such as that of
a new type of tasks, it makes a lock for each bucket.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from threading import Lock

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from rota.application.ports.metrics import Metric


class HistogramSeries:
    """The observations under one set of labels."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * len(bounds)
        self._sum = 0.0
        self._lock = Lock()

    def observe(self, value: float, times: int = 1) -> None:
        place = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[place] += times
            self._sum += value * times

    def read(self) -> tuple[list[int], float]:
        """How many were not above each bound, and the sum of all."""
        with self._lock:
            return list(accumulate(self._counts)), self._sum


class Histogram:
    """All series of one figure, for a registry to collect."""

    def __init__(self, metric: Metric, *, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        self._metric = metric
        self._bounds = (*buckets, inf)
        self._names = [str(floatToGoString(bound)) for bound in self._bounds]  # type: ignore[no-untyped-call]
        self._series: dict[tuple[str, ...], HistogramSeries] = {}
        self._lock = Lock()
        if not metric.labels:
            self.labels()
        registry.register(self)

    def labels(self, *values: str) -> HistogramSeries:
        """The series under these labels. Raises `ValueError` for another number of them than it has."""
        if len(values) != len(self._metric.labels):
            raise ValueError(f"it has {len(self._metric.labels)} labels")
        with self._lock:
            return self._series.setdefault(values, HistogramSeries(self._bounds))

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """What it would collect, without figures: by its name, the registry finds another of the same."""
        return [HistogramMetricFamily(self._metric.name, self._metric.help, labels=self._metric.labels)]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        (family,) = self.describe()
        with self._lock:
            known = list(self._series.items())
        for labels, series in known:
            counts, total = series.read()
            family.add_metric(labels, list(zip(self._names, counts, strict=True)), total)
        return [family]
