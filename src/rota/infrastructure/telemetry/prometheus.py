"""Figures for Prometheus, in a registry of their own: what else runs in the process does not get mixed in.

Task types come from users, so there may be any number of them. Beyond a bound they share one label, since every label
is a series that lives as long as the process, here and in Prometheus.
"""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from rota.application.metrics import CATALOGUE
from rota.application.ports.metrics import Metric, MetricKind
from rota.infrastructure.telemetry.histogram import Histogram, HistogramSeries

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_TYPES = 1000
OTHER = "_other"
TYPE_LABEL = "type"
# From a dispatch round of a millisecond to a task of hours, in seconds.
BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600,
)  # fmt: skip

T = TypeVar("T", Counter, Gauge, HistogramSeries)
Instrument = Counter | Gauge | Histogram
Series = Counter | Gauge | HistogramSeries

log = structlog.get_logger(__name__)


class PrometheusCollector:
    """Keeps every figure of the catalogue, and those of the process itself: CPU time, memory, open files."""

    content_type = CONTENT_TYPE

    def __init__(self, *, most_types: int = MOST_TYPES) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # twice as many series, which nobody reads
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._most_types = most_types
        self._types: set[str] = set()
        self._lock = Lock()
        self._series: dict[tuple[str, tuple[str, ...]], Series] = {}
        self._instruments = {metric: self._make(metric) for metric in CATALOGUE if not metric.by_leader}

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        series = self._series.get((counter.name, labels))
        if type(series) is Counter and amount == 1:  # every task comes by here
            series.inc()
        else:
            self._note(counter, labels, act=lambda found: _as(found, Counter).inc(amount))

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        self._note(gauge, labels, act=lambda found: _as(found, Gauge).set(value))

    def forget(self, gauge: Metric) -> None:
        with self._lock:
            instrument = self._instruments.pop(gauge, None)
            if instrument is not None:
                self._registry.unregister(instrument)
            self._series = {place: series for place, series in self._series.items() if place[0] != gauge.name}

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        series = self._series.get((histogram.name, labels))
        if type(series) is HistogramSeries and type(value) is float:  # every task comes by here
            series.observe(value, times)
        else:
            self._note(histogram, labels, act=lambda found: _as(found, HistogramSeries).observe(value, times))

    def render(self) -> bytes:
        """Everything, in the text format of `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def _note(self, metric: Metric, labels: tuple[str, ...], *, act: Callable[[Series], None]) -> None:
        try:
            series = self._series.get((metric.name, labels))
            act(series if series is not None else self._find_series(metric, labels))
        except (
            TypeError,
            ValueError,
        ) as exc:  # the wrong kind or labels, a counter that should fall: somebody's mistake
            log.warning("metrics.refused", metric=metric.name, labels=labels, error=str(exc))

    def _find_series(self, metric: Metric, labels: tuple[str, ...]) -> Series:
        """Looked up once: nearly every figure goes where one went before."""
        instrument = self._get(metric)
        bounded = self._bound(metric, labels)
        series = _series_of(instrument, metric, labels=bounded)
        if bounded == labels and self._instruments.get(metric) is instrument:
            self._series[metric.name, labels] = series
        return series

    def _get(self, metric: Metric) -> Instrument:
        found = self._instruments.get(metric)
        if found is not None:
            return found
        with self._lock:  # a plugin's own, or one that only the leader tells
            if metric not in self._instruments:
                self._instruments[metric] = self._make(metric)
            return self._instruments[metric]

    def _make(self, metric: Metric) -> Instrument:
        match metric.kind:
            case MetricKind.COUNTER:
                return Counter(metric.name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.GAUGE:
                return Gauge(metric.name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.HISTOGRAM:
                return Histogram(metric, buckets=BUCKETS, registry=self._registry)

    def _bound(self, metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
        if TYPE_LABEL not in metric.labels:
            return labels
        return tuple(
            self._bound_type(label) if name == TYPE_LABEL else label
            for name, label in zip(metric.labels, labels, strict=True)
        )

    def _bound_type(self, task_type: str) -> str:
        if task_type in self._types:
            return task_type
        with self._lock:
            if len(self._types) < self._most_types:
                self._types.add(task_type)
        return task_type if task_type in self._types else OTHER


def _series_of(instrument: Instrument, metric: Metric, *, labels: tuple[str, ...]) -> Series:
    if isinstance(instrument, Histogram):
        return instrument.labels(*labels)
    return instrument.labels(*labels) if labels or metric.labels else instrument


def _as(found: Series, wanted: type[T]) -> T:
    if not isinstance(found, wanted):
        raise TypeError(f"it is a {type(found).__name__}, not a {wanted.__name__}")
    return found
