"""Everything that Rota measures about itself, in one list: collectors declare it, the reference is made from it."""

from dataclasses import replace

from rota.application.ports.metrics import Metric, MetricKind


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"rota_{name}_total", text, MetricKind.COUNTER, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"rota_{name}", text, MetricKind.GAUGE, labels)


def _cluster_gauge(name: str, text: str, *labels: str) -> Metric:
    return replace(_gauge(name, f"{text}; told by the leader alone", *labels), by_leader=True)


def _histogram(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"rota_{name}", text, MetricKind.HISTOGRAM, labels)


TASKS_CREATED = _counter("tasks_created", "Tasks accepted and committed", "type")
TASKS_ENDED = _counter("tasks_ended", "Tasks that reached a final state", "type", "status")
TASKS_RETRIED = _counter("tasks_retried", "Attempts that failed and will be tried again", "type")
TASKS = _cluster_gauge("tasks", "Tasks of all tenants now, by state", "status")

LEADER = _gauge("scheduler_leader", "1 while this node leads")
ELECTIONS = _counter("scheduler_elections", "Reigns begun by this node")
TASKS_SCHEDULED = _counter("scheduler_tasks_scheduled", "Attempts granted to a worker", "type")
TASKS_PARKED = _gauge("scheduler_tasks_parked", "Tasks that were taken and cannot be granted now", "reason")
DISPATCH_FAILURES = _counter("scheduler_dispatch_failures", "Dispatch rounds that failed")
DISPATCH_SECONDS = _histogram("scheduler_dispatch_seconds", "Duration of a dispatch round that granted something")
SCHEDULING_DELAY_SECONDS = _histogram("scheduler_delay_seconds", "From a task being due to its grant", "type")
PLACES_LOST = _counter("scheduler_places_lost", "Grants put off because another scheduler was faster at the worker")
TASKS_PASSED_ON = _counter("scheduler_tasks_passed_on", "Tasks that were taken beside the leader and left to it")
QUEUE_LENGTH = _cluster_gauge("queue_length", "Entries ready in the queue", "priority")
QUEUE_DELAYED = _cluster_gauge("queue_delayed", "Entries that wait for their time")
WORKERS_ONLINE = _cluster_gauge("workers_online", "Workers whose lease runs")
WORKERS_LOST = _counter("workers_lost", "Workers that went silent")
ATTEMPTS_LOST = _counter("attempts_lost", "Attempts taken back from silent workers", "type")
RECONCILED = _counter("reconciled", "Repairs made by comparing store and coordinator", "what")
REBUILDS = _counter("coordinator_rebuilds", "Times the queues were rebuilt from the store")

SCHEDULE_TARGETS = _counter("schedule_targets", "Target times of schedules, by what became of them", "result")
SCHEDULES_PAUSED = _counter("schedules_paused", "Schedules that paused themselves after failed runs")
SCHEDULE_LATENESS_SECONDS = _histogram(
    "schedule_lateness_seconds", "From when a target was due, its jitter included, to the task that it made"
)

WORKER_LOAD = _gauge("worker_load", "Attempts that this worker holds")
WORKER_CAPACITY = _gauge("worker_capacity", "Attempts that this worker may hold")
ATTEMPTS_ENDED = _counter("worker_attempts", "Attempts ended by this worker", "type", "outcome")
ATTEMPT_SECONDS = _histogram("worker_attempt_seconds", "Duration of an attempt", "type")
ATTEMPTS_ABANDONED = _counter("worker_attempts_abandoned", "Attempts that did not end when told to", "type")
HEARTBEAT_SECONDS = _histogram("worker_heartbeat_seconds", "Duration of a heartbeat")
STALE_RESULTS = _counter("worker_stale_results", "Results refused because the task had moved on", "type")
RESULTS_SPOOLED = _gauge("worker_results_spooled", "Results that wait for the store")
LOG_LINES_DROPPED = _counter("worker_log_lines_dropped", "Log lines beyond the bound of an attempt or of the worker")

HTTP_REQUESTS = _counter("http_requests", "Requests to the API that were answered", "operation", "status")
HTTP_SECONDS = _histogram("http_request_seconds", "Duration of a request to the API, streams aside", "operation")
HTTP_STREAMS = _gauge("http_streams", "Streams that are followed at this node")
HTTP_DENIED = _counter("http_denied", "Requests to the API that were turned away", "code")
GRPC_REQUESTS = _counter("grpc_requests", "Calls of the gRPC API that were answered", "operation", "status")
GRPC_SECONDS = _histogram("grpc_request_seconds", "Duration of a call of the gRPC API, streams aside", "operation")

CONNECTIONS_OPEN = _gauge("connections_open", "Connections to a server that are open", "server", "pool")
CONNECTIONS_IN_USE = _gauge("connections_in_use", "Connections that a call has for itself", "server", "pool")
CONNECTIONS_LIMIT = _gauge("connections_limit", "Connections that may be open at once", "server", "pool")
CONNECTION_WAITS = _counter("connection_waits", "Calls that found all connections in use", "server", "pool")
CONNECTIONS_LOST = _counter(
    "connections_lost", "Connections that broke or were dropped, and are made anew when needed", "server", "pool"
)

LOOP_FAILURES = _counter("loop_failures", "Exceptions in background loops", "loop")
PLUGIN_FAILURES = _counter("plugin_failures", "Failures of plugins, by what they were doing", "plugin", "doing")
PLUGIN_EVENTS_DROPPED = _counter("plugin_events_dropped", "Events that a plugin was too slow for", "plugin")
COORDINATOR_FALLBACK = _gauge("coordinator_fallback", "1 while the store stands in for the coordinator")

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
