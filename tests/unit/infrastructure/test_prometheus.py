"""Figures for Prometheus: all of the catalogue, in bounds, and never in the way."""

from threading import Thread

from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from rota.application import metrics
from rota.application.ports.metrics import Metric, MetricKind, MetricsCollector
from rota.infrastructure.telemetry.prometheus import PrometheusCollector


def value_of(collector: PrometheusCollector, sample: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(collector.render().decode()):
        for found in family.samples:
            if found.name == sample and found.labels == labels:
                return float(found.value)
    return None


def families_of(collector: PrometheusCollector) -> set[str]:
    return {family.name for family in text_string_to_metric_families(collector.render().decode())}


def test_everything_in_the_catalogue_is_declared() -> None:
    declared = families_of(PrometheusCollector())

    own = {metric.name.removesuffix("_total") for metric in metrics.CATALOGUE if not metric.by_leader}
    assert own <= declared


def test_what_the_leader_tells_is_absent_everywhere_else() -> None:
    collector = PrometheusCollector()
    assert value_of(collector, "rota_workers_online") is None

    for value in (3, 4):
        collector.put(metrics.WORKERS_ONLINE, value=value)
        collector.put(metrics.QUEUE_LENGTH, "5", value=value)
        assert value_of(collector, "rota_workers_online") == value
        assert value_of(collector, "rota_queue_length", priority="5") == value
        for gauge in (metrics.WORKERS_ONLINE, metrics.QUEUE_LENGTH, metrics.QUEUE_DELAYED):
            collector.forget(gauge)
        assert families_of(collector).isdisjoint({"rota_workers_online", "rota_queue_length", "rota_queue_delayed"})


def test_the_process_itself_is_measured() -> None:
    assert {"process_cpu_seconds", "process_resident_memory_bytes"} <= families_of(PrometheusCollector())


def test_counters_count_gauges_stand_and_histograms_gather() -> None:
    collector = PrometheusCollector()
    port: MetricsCollector = collector

    port.add(metrics.TASKS_CREATED, "email")
    port.add(metrics.TASKS_CREATED, "email", amount=2)
    port.put(metrics.QUEUE_LENGTH, "5", value=7)
    port.put(metrics.WORKERS_ONLINE, value=3)
    port.observe(metrics.ATTEMPT_SECONDS, "email", value=0.004)
    port.observe(metrics.ATTEMPT_SECONDS, "email", value=7200)

    assert value_of(collector, "rota_tasks_created_total", type="email") == 3
    assert value_of(collector, "rota_queue_length", priority="5") == 7
    assert value_of(collector, "rota_workers_online") == 3
    assert value_of(collector, "rota_worker_attempt_seconds_bucket", type="email", le="0.005") == 1
    assert value_of(collector, "rota_worker_attempt_seconds_bucket", type="email", le="3600.0") == 1
    assert value_of(collector, "rota_worker_attempt_seconds_bucket", type="email", le="14400.0") == 2


def test_a_histogram_counts_and_sums_what_it_gathers() -> None:
    collector = PrometheusCollector()

    for value in (0.25, 0.5, 2.0):
        collector.observe(metrics.HEARTBEAT_SECONDS, value=value)
    collector.observe(metrics.HEARTBEAT_SECONDS, value=0.5, times=4)

    assert value_of(collector, "rota_worker_heartbeat_seconds_count") == 7
    assert value_of(collector, "rota_worker_heartbeat_seconds_sum") == 4.75
    assert value_of(collector, "rota_worker_heartbeat_seconds_bucket", le="0.5") == 6
    assert value_of(collector, "rota_worker_heartbeat_seconds_bucket", le="+Inf") == 7


def test_two_collectors_do_not_mix() -> None:
    first, second = PrometheusCollector(), PrometheusCollector()
    first.add(metrics.ELECTIONS)

    assert value_of(first, "rota_scheduler_elections_total") == 1
    assert value_of(second, "rota_scheduler_elections_total") == 0


def test_task_types_beyond_the_bound_share_one_label() -> None:
    collector = PrometheusCollector(most_types=2)

    for task_type in ("a", "b", "c", "d", "a"):
        collector.add(metrics.TASKS_ENDED, task_type, "SUCCESS")

    assert value_of(collector, "rota_tasks_ended_total", type="a", status="SUCCESS") == 2
    assert value_of(collector, "rota_tasks_ended_total", type="c", status="SUCCESS") is None
    assert value_of(collector, "rota_tasks_ended_total", type="_other", status="SUCCESS") == 2


def test_a_metric_of_a_plugin_is_declared_when_it_is_first_used() -> None:
    collector = PrometheusCollector()
    alerts = Metric("alerts_total", "Alerts sent", MetricKind.COUNTER)

    collector.add(alerts)
    collector.add(alerts)

    assert value_of(collector, "alerts_total") == 2


def test_a_mistaken_call_is_logged_and_raises_nothing() -> None:
    collector = PrometheusCollector()

    with capture_logs() as logs:
        collector.add(metrics.TASKS_CREATED)
        collector.add(metrics.ELECTIONS, amount=-1)
        collector.add(metrics.ELECTIONS, "label")
        collector.put(metrics.ELECTIONS, value=1)
        collector.add(Metric("rota_worker_load", "Taken", MetricKind.COUNTER))
        collector.observe(Metric("rota_worker_load", "Taken", MetricKind.HISTOGRAM), value=1.0)
        collector.observe(metrics.ATTEMPT_SECONDS, value=1.0)
        collector.observe(metrics.ELECTIONS, value=1.0)

    assert [line["event"] for line in logs] == ["metrics.refused"] * 8
    assert value_of(collector, "rota_scheduler_elections_total") == 0


def test_no_count_is_lost_between_threads() -> None:
    collector = PrometheusCollector()

    def count() -> None:
        for number in range(1000):
            collector.add(metrics.TASKS_CREATED, str(number % 10))

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert value_of(collector, "rota_tasks_created_total", type="7") == 400
