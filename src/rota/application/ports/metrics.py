"""Figures about Rota itself. What is measured stands in `application/metrics.py`; where it goes is the collector's."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: its Prometheus name (with its unit), what it means, and the labels it is told apart by."""

    name: str
    help: str
    kind: MetricKind
    labels: tuple[str, ...] = ()
    by_leader: bool = False  # about the whole cluster: any other process has nothing to say, not even 0


class MetricsCollector(Protocol):
    """Takes figures. Never blocks, never raises; may be called from any thread."""

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        """Count something that happened."""
        ...

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        """Note how much there is now."""
        ...

    def forget(self, gauge: Metric) -> None:
        """Tell it no more, whatever its labels, until it is put again."""
        ...

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        """Note one duration in seconds, or one size; or so many that are equal."""
        ...


@runtime_checkable
class MetricsPage(Protocol):
    """What a collector can do as well, whose figures are fetched rather than sent."""

    @property
    def content_type(self) -> str: ...

    def render(self) -> bytes:
        """All figures of this process."""
        ...


class NoMetrics:
    """Measures nothing."""

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        pass

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        pass

    def forget(self, gauge: Metric) -> None:
        pass

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        pass


NO_METRICS = NoMetrics()
