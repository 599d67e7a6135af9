"""A collector that a test can read."""

from collections import Counter

from rota.application.ports.metrics import Metric


class Figures:
    """Keeps every figure, by metric and labels."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[tuple[str, ...], float] = {}

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.counts[counter.name, *labels] += int(amount)

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        self.gauges[gauge.name, *labels] = value

    def forget(self, gauge: Metric) -> None:
        self.gauges = {place: value for place, value in self.gauges.items() if place[0] != gauge.name}

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        pass

    def count(self, counter: Metric, *labels: str) -> int:
        return self.counts[counter.name, *labels]

    def gauge(self, gauge: Metric, *labels: str) -> float | None:
        return self.gauges.get((gauge.name, *labels))
