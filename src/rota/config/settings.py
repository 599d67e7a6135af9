"""Every setting, once: its default, what is allowed, what it is for, and whether a running process takes a change.

The loader, `rota settings`, the hot reload and the reference page are all made from these classes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from rota.config import grpc_kinds, http_kinds, kinds
from rota.config.kinds import Kind, PluginChoice, setting
from rota.domain.errors import InvalidError
from rota.domain.retry import MAX_RETRIES, STANDARD_RETRY
from rota.domain.worker import ANY_TYPE, MAX_CAPACITY
from rota.infrastructure.executors.grpc.settings import TlsTarget
from rota.infrastructure.executors.http.config import MAX_CONCURRENCY
from rota.infrastructure.executors.http.settings import SecretSettings, TargetSettings

_SECOND = timedelta(seconds=1)
_TENTH = timedelta(milliseconds=100)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MIB = 1024**2
TRUST_MARGIN = timedelta(seconds=1)  # a leader stops trusting itself this long before its lease ends


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The store: where tasks are kept."""

    url: str = setting(
        "sqlite:///.rota/rota.db",
        kinds.url("sqlite:///.rota/rota.db", "postgresql://db.internal/rota"),
        text="Where the tasks are: `sqlite:///path`, `mysql://…`, `mariadb://…`, `postgresql://…`, `redis://…`,"
        " `redis+sentinel://…/service`, `redis+cluster://…` (`rediss…` with TLS), `etcd://…`, `etcds://…` or `memory://`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The coordinator: queues, leases and signals."""

    url: str = setting(
        "memory://",
        kinds.url("redis://localhost:6379/0", "etcd://localhost:2379"),
        text="`memory://` for one process, `sql://` for the store's own database (the default where the store is one on"
        " a server), `redis://…`, `redis+sentinel://…/service`, `redis+cluster://…` (`rediss…` with TLS), `etcd://…` or"
        " `etcds://…`; where the store is a Redis or an etcd, that one.",
    )
    prefix: str = setting(
        "rota",
        kinds.name(),
        text="Begins every key, so that clusters can share a Redis or an etcd; where `coordinator.url` is an etcd with"
        " a path, that path by default.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The HTTP and gRPC interfaces."""

    host: str = setting("127.0.0.1", kinds.host(), text="The address to listen at.")
    port: int = setting(8420, kinds.whole(0, 65535), text="The port of HTTP and the console; 0 takes any free one.")
    grpc_port: int | None = setting(
        8421,
        kinds.optional(kinds.whole(0, 65535)),
        text="The port of gRPC, for which the package needs `rota[grpc]`; 0 takes any free one, null none.",
    )
    tls_cert: str | None = setting(
        None, kinds.optional(kinds.path()), text="A PEM file with the certificate, and those it depends on."
    )
    tls_key: str | None = setting(None, kinds.optional(kinds.path()), text="A PEM file with the certificate's key.")
    behind_tls_proxy: bool = setting(
        False,
        kinds.truth(),
        text="A proxy in front does TLS: another address than loopback is safe without a certificate.",
    )
    hosts: tuple[str, ...] = setting(
        (),
        kinds.hosts(),
        text="The names that clients reach it by; those of loopback are always known. Where it listens elsewhere, none"
        " means any.",
    )
    public_url: str | None = setting(
        None,
        kinds.optional(kinds.web_url()),
        text="Where services outside reach the API, for the callbacks that finish a task later; workers need it, too."
        " null: the address it listens at.",
    )
    rate: float | None = setting(
        100.0,
        kinds.optional(kinds.real(0.1, 1_000_000)),
        text="The most requests per second with one token; twice as many may come at once. null: no limit.",
        live=True,
    )
    max_connections: int = setting(
        1000, kinds.whole(10, 100_000), text="The most connections; what comes beyond is told to try later."
    )
    max_streams: int = setting(
        50,
        kinds.whole(1, 50),
        text="The most streams of events or log lines that are followed at once; one of events listens to the"
        " coordinator for itself, on Redis over a connection of its own, of which a process has 64.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The scheduler: election and dispatch."""

    leader_ttl: timedelta = setting(
        6 * _SECOND, kinds.duration(2 * _SECOND, _HOUR), text="How long a leader's lease lasts without renewal."
    )
    renew_interval: timedelta = setting(
        2 * _SECOND, kinds.duration(_TENTH, _HOUR), text="How often a leader renews it."
    )
    batch_size: int = setting(500, kinds.whole(1, 10_000), text="The most tasks granted in one round.", live=True)
    balancer: str = setting(
        "least_task",
        kinds.name(),
        text="Who gets a task: `least_task`, `round_robin`, `random`, `weighted`, `consistent_hash`, `type_affinity`,"
        " or one that a package or program has registered.",
        live=True,
    )
    global_rate: float | None = setting(
        None,
        kinds.optional(kinds.real(0.001, 1_000_000)),
        text="The most tasks started per second, of all types.",
        live=True,
    )
    reconcile_interval: timedelta = setting(
        30 * _SECOND,
        kinds.duration(_SECOND, _HOUR),
        text="How often the store is compared with the coordinator; more often after calls that got no answer.",
        live=True,
    )
    shared_dispatch: bool = setting(
        False,
        kinds.truth(),
        text="Whether every scheduler dispatches, not the leader alone; on etcd only, and the same for all schedulers.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A worker: what it takes, and how it runs it."""

    name: str | None = setting(
        None, kinds.optional(kinds.name(200)), text="What people call it; null: made of host name and process."
    )
    capacity: int = setting(10, kinds.whole(1, MAX_CAPACITY), text="The most tasks at once.", live=True)
    types: tuple[str, ...] = setting(
        (ANY_TYPE,),
        kinds.words(),
        text="The task types it takes. `*` is all that it can run: those of its app, those whose config names a"
        " function of its app, and those of every other executor; `@http` is all that the executor `http` runs,"
        " `@local` all that are functions, `@local.shop` those whose config names a function of the module `shop`.",
    )
    weight: int = setting(1, kinds.whole(1, 1000), text="Its share of tasks under the balancer `weighted`.")
    labels: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"kind": kinds.labels(), "text": "Facts about it that people see, text to text.", "live": False},
    )
    processes: int = setting(
        1, kinds.whole(1, 256), text="Worker processes that `rota worker` runs, each with this capacity."
    )
    heartbeat_interval: timedelta = setting(
        3 * _SECOND, kinds.duration(_TENTH, _HOUR), text="How often it says it is alive."
    )
    lease: timedelta = setting(
        12 * _SECOND, kinds.duration(_SECOND, _HOUR), text="After this silence its tasks go elsewhere."
    )
    drain_timeout: timedelta = setting(
        30 * _SECOND,
        kinds.duration(timedelta(0), _DAY),
        text="How long running tasks may go on after it was told to stop.",
    )
    stop_grace: timedelta = setting(
        2 * _SECOND,
        kinds.duration(timedelta(0), _HOUR),
        text="Between asking a task to stop and ending it by force; at most a quarter of `worker.lease`.",
    )
    task_log_limit: int = setting(
        _MIB,
        kinds.size(1024, 1024 * _MIB),
        text="The most log text that is kept of one attempt at a task; the next may run elsewhere, and has its own.",
    )
    task_memory: int | None = setting(
        None, kinds.optional(kinds.size(16 * _MIB, 1024 * 1024 * _MIB)), text="The most memory a child process may use."
    )
    spool: str | None = setting(
        None, kinds.optional(kinds.path()), text="A folder for results while the store is away; null: in memory only."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Tasks: what a decorated function that says nothing else gets, and how long they are kept."""

    timeout: timedelta = setting(
        timedelta(minutes=5), kinds.duration(timedelta(milliseconds=1)), text="How long an attempt may take."
    )
    max_retries: int = setting(3, kinds.whole(0, MAX_RETRIES), text="How often a failed task is tried again.")
    retry_delay: timedelta = setting(
        10 * _SECOND,
        kinds.duration(timedelta(0), STANDARD_RETRY.max_delay),
        text="The pause before the first retry.",
        live=True,
    )
    backoff_rate: float = setting(2.0, kinds.real(1, 100), text="By how much each pause is longer than the last.")
    retention: timedelta = setting(
        30 * _DAY,
        kinds.duration(_SECOND),
        text="How long ended tasks are kept with their results and logs; 7 days by default where the store is a Redis.",
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """Reports: how far they reach back."""

    fine_days: int = setting(
        35,
        kinds.whole(1, 3660),
        text="How many days back figures by hour are kept, and with them those by day in any time zone.",
    )
    days: int = setting(730, kinds.whole(1, 3660), text="How many days back figures by day, in UTC, are kept.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Calls to other services over gRPC."""

    allow: tuple[str, ...] = setting(
        (),
        grpc_kinds.allowed_targets(),
        text="The services on private addresses that may be called: hosts, `host:port`, `*.suffix`, networks.",
    )
    targets: Mapping[str, TlsTarget] = field(
        default_factory=dict,
        metadata={
            "kind": grpc_kinds.tls_targets(),
            "text": "How to speak TLS with services, by the names that task configs use as `tls`: `ca` (whom to trust),"
            " `cert` and `key` (who we are), paths of PEM files, `server_name`, and `secret_metadata` (sent with each"
            " call). It is for `hosts` alone, which `cert` and `secret_metadata` need. `default` trusts public ones.",
            "live": False,
        },
    )
    metadata: tuple[str, ...] = setting(
        (),
        grpc_kinds.strings("metadata names", "tier"),
        text="The metadata that task configs may send besides `x-…`.",
    )
    descriptor_sets: tuple[str, ...] = setting(
        (),
        grpc_kinds.strings("paths", "shop.binpb"),
        text="Files that describe services which offer no reflection, by `protoc --include_imports"
        " --descriptor_set_out`.",
    )
    max_message: int = setting(
        4 * _MIB, kinds.size(1024, 64 * _MIB), text="The most bytes of a request and of an answer."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExecutorSettings:
    """The HTTP executor: which services may be called, and how they know who calls."""

    allow: tuple[str, ...] = setting(
        (),
        http_kinds.allowed_targets(),
        text="What may be called besides public addresses: hosts, networks, everything under a name.",
    )
    secrets: Mapping[str, SecretSettings] = field(
        default_factory=dict,
        metadata={
            "kind": http_kinds.secrets(),
            "text": "What requests are signed with, and to which hosts (`crm.internal`, `crm.internal:8080`,"
            " `*.svc.internal`). Task configs name one; `default` is for those that name none. Two keys while one is"
            " replaced: both sign.",
            "live": False,
        },
    )
    targets: Mapping[str, TargetSettings] = field(
        default_factory=dict,
        metadata={
            "kind": http_kinds.targets(),
            "text": "What is needed to call some hosts: a CA of their own, a certificate of ours, headers that are"
            " secret and go out by https alone unless `allow_http` is true. Task configs name it as `target`.",
            "live": False,
        },
    )
    concurrency: int = setting(
        100, kinds.whole(1, MAX_CONCURRENCY), text="The most requests at once from one worker to one host and port."
    )
    max_response: int = setting(_MIB, kinds.size(1024, 64 * _MIB), text="The most that is read of an answer.")
    breaker_failures: int = setting(
        10,
        kinds.whole(1, 1_000_000),
        text="After so many calls in a row that nobody answered, none is made for a while.",
    )
    breaker_pause: timedelta = setting(
        10 * _SECOND, kinds.duration(_TENTH, _HOUR), text="How long that is; then one call tries."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The log of a process, on standard error."""

    level: str = setting(
        "info", kinds.choice("debug", "info", "warning", "error"), text="The least that is worth a line.", live=True
    )
    format: str = setting(
        "auto", kinds.choice("auto", "json", "pretty"), text="`auto` is pretty on a terminal and JSON lines elsewhere."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Figures about Rota itself."""

    collector: str = setting("prometheus", kinds.name(), text="Where they go: `prometheus`, or `none`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """A port of its own for health and figures, of a process of any role."""

    host: str = setting(
        "127.0.0.1",
        kinds.host(),
        text="The address to listen at. Whoever reaches it may read, without a token.",
    )
    port: int | None = setting(
        None,
        kinds.optional(kinds.whole(0, 65535)),
        text="The port of `/livez`, `/readyz` and `/metrics` alone; 0 takes any free one, null none. Of several"
        " `worker.processes` each takes the next one.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of them."""

    store: StoreSettings = StoreSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    worker: WorkerSettings = WorkerSettings()
    task: TaskSettings = TaskSettings()
    report: ReportSettings = ReportSettings()
    http: HttpExecutorSettings = HttpExecutorSettings()
    grpc: GrpcSettings = GrpcSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    monitor: MonitorSettings = MonitorSettings()
    plugins: tuple[PluginChoice, ...] = setting(
        (), kinds.plugins(), text="The plugins to run, in the order they start; each may have settings of its own."
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one setting."""

    key: str  # `worker.capacity`
    kind: Kind[Any]
    default: Any
    text: str
    is_live: bool

    @property
    def variable(self) -> str:
        """The environment variable that sets it: `ROTA_WORKER__CAPACITY`."""
        return f"ROTA_{self.key.replace('.', '__').upper()}"

    @property
    def flag(self) -> str:
        """How a command line sets it: `--set worker.capacity=…`."""
        return f"--set {self.key}=…"


def values_of(settings: Settings) -> dict[str, Any]:
    """Every value by its dotted key."""
    found: dict[str, Any] = {}
    for part in fields(settings):
        value = getattr(settings, part.name)
        if part.name in SECTIONS:
            found |= {f"{part.name}.{inner.name}": getattr(value, inner.name) for inner in fields(value)}
        else:
            found[part.name] = value
    return found


def with_values(values: Mapping[str, Any]) -> Settings:
    """Settings from values by dotted key; what is not there has its default."""
    parts: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
    for name, section in SECTIONS.items():
        inside = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")}
        parts[name] = section(**inside)
    return Settings(**parts)


def list_conflicts(settings: Settings) -> Iterator[InvalidError]:
    """Values that are sound alone and make no sense together."""
    scheduler, worker = settings.scheduler, settings.worker
    if scheduler.renew_interval * 2 > scheduler.leader_ttl - TRUST_MARGIN:
        problem = "must be at most half of scheduler.leader_ttl less 1s, or one lost renewal ends a reign"
        yield InvalidError("scheduler.renew_interval", problem)
    if worker.heartbeat_interval * 3 > worker.lease:
        problem = "must be at most a third of worker.lease, or two lost heartbeats look like a dead worker"
        yield InvalidError("worker.heartbeat_interval", problem)
    if worker.stop_grace * 4 > worker.lease:
        problem = "must be at most a quarter of worker.lease, or what a worker that is cut off stops outlives it"
        yield InvalidError("worker.stop_grace", problem)
    if settings.api.port == settings.api.grpc_port != 0:
        yield InvalidError("api.grpc_port", "must differ from api.port")


def _list_entries() -> Iterator[Entry]:
    for part in fields(Settings):
        if part.name in SECTIONS:
            section = SECTIONS[part.name]
            yield from (
                _entry(f"{part.name}.{inner.name}", inner.metadata, holder=section()) for inner in fields(section)
            )
        else:
            yield _entry(part.name, part.metadata, holder=Settings())


def _entry(key: str, about: Mapping[str, Any], *, holder: object) -> Entry:
    default = getattr(holder, key.rpartition(".")[2])
    return Entry(key, about["kind"], default=default, text=about["text"], is_live=about["live"])


SECTIONS: Mapping[str, type[Any]] = {
    "store": StoreSettings,
    "coordinator": CoordinatorSettings,
    "api": ApiSettings,
    "scheduler": SchedulerSettings,
    "worker": WorkerSettings,
    "task": TaskSettings,
    "report": ReportSettings,
    "http": HttpExecutorSettings,
    "grpc": GrpcSettings,
    "log": LogSettings,
    "metrics": MetricsSettings,
    "monitor": MonitorSettings,
}
SCHEMA: Mapping[str, Entry] = {entry.key: entry for entry in _list_entries()}
