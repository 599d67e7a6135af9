"""Names and what they stand for: the one place where a setting's text becomes something that can be built.

A name is looked for among those that the program registered, then among Rota's own, then among the entry points of
installed packages, which are read only when they are needed. A package cannot take the place of one of Rota's own;
a program can, since it says so itself. An adapter is imported when it is built: its library may not be installed, and
nobody should wait for one that is not used.
"""

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from rota.application.plugins import PluginPlan
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.executor import Executor
from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.application.ports.plugin import Plugin
from rota.application.ports.store import Store
from rota.application.ports.system import Clock, Random
from rota.config.exposure import EVERY_ADDRESS
from rota.config.load import Loaded, Sources, load
from rota.config.quiet_grpc import quiet_grpc
from rota.config.settings import Settings
from rota.domain.balancing import BALANCERS, LoadBalancer
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.spelling import find_near
from rota.domain.task_config import LOCAL, TaskConfig
from rota.infrastructure.executors.grpc.call import check_config as check_grpc_config
from rota.infrastructure.executors.grpc.lazy import LazyGrpcExecutor
from rota.infrastructure.executors.grpc.settings import GrpcSettings
from rota.infrastructure.executors.http.config import check_config as check_http_config
from rota.infrastructure.executors.http.settings import HttpSettings
from rota.infrastructure.executors.local.reference import check_config as check_local_config
from rota.infrastructure.executors.targets import TargetGuard, parse_allow
from rota.infrastructure.server_urls import SPELLED, split_url
from rota.infrastructure.telemetry.redact import redact_text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every factory is given to build from."""

    settings: Settings
    clock: Clock
    random: Random
    collector: MetricsCollector = NO_METRICS


class MissingExtraError(ConfigError):
    """What is asked for needs an extra of the package."""


StoreFactory = Callable[[Surroundings], AbstractAsyncContextManager[Store]]
CoordinatorFactory = Callable[[Surroundings], AbstractAsyncContextManager[Coordinator]]
ExecutorFactory = Callable[[Surroundings], Executor]
ExecutorCheck = Callable[[Mapping[str, Any]], None]  # raises `InvalidError` for what it could not run
MetricsFactory = Callable[[Surroundings], MetricsCollector]
PluginFactory = Callable[[], Plugin]


class Registry(Generic[T]):
    """One kind of thing by name."""

    def __init__(self, kind: str, own: Mapping[str, T], *, group: str) -> None:
        self._kind = kind
        self._own = dict(own)
        self._group = group
        self._registered: dict[str, T] = {}

    def register(self, name: str, thing: T) -> None:
        """Let the program itself add one, or replace one of Rota's own. Twice the same name is a mistake."""
        if name in self._registered:
            raise ConfigError(f"{self._kind} {name!r} is registered twice", fix="register it under another name")
        self._registered[name] = thing

    def is_registered(self, name: str) -> bool:
        """Whether the program itself added it."""
        return name in self._registered

    def get(self, name: str) -> T:
        """What the name stands for, or `ConfigError` with all names that are known."""
        for table in (self._registered, self._own):
            if name in table:
                return table[name]
        for point in self._list_points():
            if point.name == name:
                return self._load(point)
        names = self.list_names()
        near = get_close_matches(name, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        known = f"known: {', '.join(names) or 'none yet'} (packages add to them by {self._group})"
        raise ConfigError(f"unknown {self._kind} {name!r}{meant}; {known}")

    def list_names(self) -> list[str]:
        """Every name that `get` knows."""
        return sorted({*self._registered, *self._own, *(point.name for point in self._list_points())})

    def _list_points(self) -> list[EntryPoint]:
        return sorted(entry_points(group=self._group), key=lambda point: point.value)

    def _load(self, point: EntryPoint) -> T:
        try:
            loaded: T = point.load()
        except Exception as exc:  # whatever the module of another package does while it is imported
            package = point.dist.name if point.dist is not None else point.module
            problem = f"{self._kind} {point.name!r} of the package {package} cannot be loaded: {exc}"
            raise ConfigError(problem, fix=f"pip install --upgrade {package}") from exc
        return loaded


@asynccontextmanager
async def _open_memory_store(around: Surroundings) -> AsyncIterator[Store]:
    from rota.infrastructure.store.memory.store import memory_store

    yield memory_store(around.clock)


def _open_sql_store(around: Surroundings) -> AbstractAsyncContextManager[Store]:
    from rota.infrastructure.store.sql.store import open_sql_store

    url, collector = around.settings.store.url, around.collector
    return open_sql_store(url, clock=around.clock, random=around.random, collector=collector)


def _open_redis_store(around: Surroundings) -> AbstractAsyncContextManager[Store]:
    with needing("redis"):
        from rota.infrastructure.store.redis.store import open_redis_store

        settings = around.settings
        return open_redis_store(settings.store.url, settings.coordinator.prefix, collector=around.collector)


def _open_etcd_store(around: Surroundings) -> AbstractAsyncContextManager[Store]:
    quiet_grpc()
    with needing("etcd"):
        from rota.infrastructure.store.etcd.store import open_etcd_store

        return open_etcd_store(around.settings.store.url, around.clock)


@asynccontextmanager
async def _open_memory_coordinator(around: Surroundings) -> AsyncIterator[Coordinator]:
    from rota.infrastructure.coordination.memory import memory_coordinator

    yield memory_coordinator(around.clock)


def _open_sql_coordinator(
    around: Surroundings, server: str = "coordinator"
) -> AbstractAsyncContextManager[Coordinator]:
    from rota.infrastructure.coordination.sql.coordinator import open_sql_coordinator

    if scheme_of(around.settings.store.url) not in SQL_SCHEMES:
        problem = "coordinator.url: sql:// stands for the store's own database, and the store has none"
        raise ConfigError(problem, fix=f"set store.url to one of {', '.join(SQL_SCHEMES)}, or another coordinator.url")
    url, collector = around.settings.store.url, around.collector
    return open_sql_coordinator(url, clock=around.clock, random=around.random, collector=collector, server=server)


def _open_redis_coordinator(around: Surroundings) -> AbstractAsyncContextManager[Coordinator]:
    with needing("redis"):
        from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator

        coordinator = around.settings.coordinator
        return open_redis_coordinator(coordinator.url, coordinator.prefix, collector=around.collector)


def _open_etcd_coordinator(around: Surroundings) -> AbstractAsyncContextManager[Coordinator]:
    quiet_grpc()
    with needing("etcd"):
        from rota.infrastructure.coordination.etcd.coordinator import open_etcd_coordinator

        coordinator = around.settings.coordinator
        return open_etcd_coordinator(coordinator.url, around.clock, prefix=coordinator.prefix)


def _make_grpc(around: Surroundings) -> Executor:
    with needing("grpc"):
        if find_spec("grpc") is None:  # it is imported with the first call
            raise ModuleNotFoundError(name="grpc")
    if around.settings.grpc.descriptor_sets:  # unless files that cannot be used must be told now
        return _build_grpc(around)
    return LazyGrpcExecutor(partial(_build_grpc, around))


def _build_grpc(around: Surroundings) -> Executor:
    quiet_grpc()
    with needing("grpc"):
        from rota.infrastructure.executors.grpc.descriptors import Methods, load_descriptors
        from rota.infrastructure.executors.grpc.executor import GrpcExecutor
    given = around.settings.grpc
    settings = GrpcSettings(
        targets=given.targets,
        metadata=frozenset(given.metadata),
        max_message=given.max_message,
    )
    methods = Methods(load_descriptors(given.descriptor_sets), around.clock)
    allowed = [parse_allow("grpc.allow", text) for text in given.allow]
    guard = TargetGuard(allowed, closed=list_own_servers(around.settings))
    return GrpcExecutor(around.clock, guard, settings=settings, methods=methods)


def _make_prometheus(_around: Surroundings) -> MetricsCollector:
    from rota.infrastructure.telemetry.prometheus import PrometheusCollector

    return PrometheusCollector()


def _make_http(around: Surroundings) -> Executor:
    with needing("http"):
        if find_spec("aiohttp") is None:  # it is imported with the first request
            raise ModuleNotFoundError(name="aiohttp")
    from rota.infrastructure.executors.http.executor import HttpExecutor

    return HttpExecutor(around.clock, around.random, settings=http_settings(around.settings))


def http_settings(settings: Settings) -> HttpSettings:
    """What the HTTP executor is built from."""
    http = settings.http
    return HttpSettings(
        allow=[parse_allow("http.allow", text) for text in http.allow],
        closed=list_own_servers(settings),
        secrets=http.secrets,
        targets=http.targets,
        concurrency=http.concurrency,
        max_response=http.max_response,
        breaker_failures=http.breaker_failures,
        breaker_pause=http.breaker_pause,
    )


def list_own_servers(settings: Settings) -> list[tuple[str, int]]:
    """Hosts and ports of the store, the coordinator, the API and the monitor, which no executor may call."""
    api, monitor = settings.api, settings.monitor
    own = ((api.host, api.port), (api.host, api.grpc_port), (monitor.host, monitor.port))
    listening = [(name, port) for host, port in own if port for name in _names_of(host)]
    return [*_list_servers(settings.store.url), *_list_servers(settings.coordinator.url), *listening]


def _names_of(host: str) -> tuple[str, ...]:
    """The names by which whoever listens at this address is called here."""
    return (host, socket.gethostname()) if host in EVERY_ADDRESS else (host,)


def _list_servers(url: str) -> list[tuple[str, int]]:
    """The servers that a URL names: one, several separated by commas, or none."""
    parts = split_url(url)
    scheme = parts.scheme.lower()
    usual = SERVER_PORTS.get(scheme, SERVER_PORTS.get(scheme.partition("+")[0]))  # what follows a plus may be a driver
    found = []
    for server in parts.netloc.rpartition("@")[2].split(","):
        try:
            one = urlsplit(f"//{server}")
            host, port = one.hostname, one.port or usual
        except ValueError:  # which may quote a part of a password as a port
            raise ConfigError(f"{redact_text(url)!r} has a server that is none; {SPELLED}") from None
        if host and port is not None:
            found.append((host, port))
    return found


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """An optional library is imported here: say how to get it."""
    try:
        yield
    except ModuleNotFoundError as exc:
        package = (exc.name or extra).partition(".")[0]
        problem = f"the package {package} is not installed (with a wheel: pip install 'FILE.whl[{extra}]')"
        raise MissingExtraError(problem, fix=f"pip install 'rota[{extra}]'") from exc


ETCD_SCHEMES = ("etcd", "etcds")
REDIS_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
SQL_SCHEMES = ("sqlite", "mysql", "mariadb", "postgresql")
STORES: Mapping[str, StoreFactory] = {
    "memory": _open_memory_store,
    "sqlite": _open_sql_store,
    "mysql": _open_sql_store,
    "mariadb": _open_sql_store,
    "postgresql": _open_sql_store,
    **dict.fromkeys(REDIS_SCHEMES, _open_redis_store),
    "etcd": _open_etcd_store,
    "etcds": _open_etcd_store,
}
COORDINATORS: Mapping[str, CoordinatorFactory] = {
    "memory": _open_memory_coordinator,
    "sql": _open_sql_coordinator,
    **dict.fromkeys(REDIS_SCHEMES, _open_redis_coordinator),
    "etcd": _open_etcd_coordinator,
    "etcds": _open_etcd_coordinator,
}
SERVER_PORTS = {
    **{"mysql": 3306, "mariadb": 3306, "postgresql": 5432},
    **{"redis": 6379, "rediss": 6379, "redis+sentinel": 26379, "rediss+sentinel": 26379},
    **{"etcd": 2379, "etcds": 2379},
}
EXECUTORS: Mapping[str, ExecutorFactory] = {"http": _make_http, "grpc": _make_grpc}
EXECUTOR_CHECKS: Mapping[str, ExecutorCheck] = {
    LOCAL: check_local_config,
    "http": check_http_config,
    "grpc": check_grpc_config,
}
METRICS: Mapping[str, MetricsFactory] = {
    "none": lambda _around: NO_METRICS,
    "prometheus": _make_prometheus,
}
PLUGINS: Mapping[str, PluginFactory] = {}
SLIP = 0.75  # how much alike two names are of which one is a slip; a name that goes on after another is its own


@dataclass(frozen=True, slots=True)
class Registries:
    """Every table. A program makes one, adds its own, and hands it to what builds the system."""

    stores: Registry[StoreFactory] = field(
        default_factory=lambda: Registry("store", STORES, group="rota.stores"),
    )
    coordinators: Registry[CoordinatorFactory] = field(
        default_factory=lambda: Registry("coordinator", COORDINATORS, group="rota.coordinators"),
    )
    executors: Registry[ExecutorFactory] = field(
        default_factory=lambda: Registry("executor", EXECUTORS, group="rota.executors"),
    )
    executor_checks: Registry[ExecutorCheck] = field(
        default_factory=lambda: Registry("executor check", EXECUTOR_CHECKS, group="rota.executor_checks"),
    )
    balancers: Registry[LoadBalancer] = field(
        default_factory=lambda: Registry("balancer", BALANCERS, group="rota.balancers"),
    )
    metrics: Registry[MetricsFactory] = field(
        default_factory=lambda: Registry("metrics collector", METRICS, group="rota.metrics"),
    )
    plugins: Registry[PluginFactory] = field(
        default_factory=lambda: Registry("plugin", PLUGINS, group="rota.plugins"),
    )


def open_fallback(around: Surroundings) -> AbstractAsyncContextManager[Coordinator]:
    """The coordinator on the store's own database, to stand in for another one."""
    return _open_sql_coordinator(around, "fallback")


def scheme_of(url: str) -> str:
    """What stands before `://`, in lower case."""
    return url.partition("://")[0].lower()


def load_known(sources: Sources, registries: Registries) -> Loaded:
    """Read all settings; the one `SettingsError` also has every setting that names something nobody knows."""
    return load(sources, look=lambda loaded: _list_unknown(loaded, registries))


def _list_unknown(loaded: Loaded, registries: Registries) -> list[str]:
    settings = loaded.settings
    lookups: list[tuple[str, Callable[[], object]]] = [
        ("store.url", lambda: registries.stores.get(scheme_of(settings.store.url))),
        ("coordinator.url", lambda: registries.coordinators.get(scheme_of(settings.coordinator.url))),
        ("scheduler.balancer", lambda: registries.balancers.get(settings.scheduler.balancer)),
        ("metrics.collector", lambda: registries.metrics.get(settings.metrics.collector)),
        ("plugins", lambda: [registries.plugins.get(plugin.name) for plugin in settings.plugins]),
    ]
    return [problem for key, look in lookups if (problem := _try(look, f"{key} in {loaded.origins[key]}"))]


def check_executor(config: TaskConfig, registries: Registries) -> None:
    """Let the executor's own check look at what a config says to it; an executor without one accepts everything.

    Workers may bring executors that are not known here, but hardly one that is called as one of these but for a slip.
    """
    checks = registries.executor_checks
    known = {LOCAL, *registries.executors.list_names(), *checks.list_names()}
    named = config.executor_type
    near = None if named.startswith(tuple(known)) else find_near(named, known, cutoff=SLIP)
    if near is not None:
        problem = f"{named!r} is not known; did you mean {near}? known here are {', '.join(sorted(known))}"
        raise InvalidError("executor.type", problem)
    if config.executor_type in checks.list_names():
        said = json.loads(config.executor_config)
        if not isinstance(said, dict):
            raise InvalidError("executor", "must be a mapping")
        checks.get(config.executor_type)(said)


def list_plugins(settings: Settings, registries: Registries) -> list[PluginPlan]:
    """The plugins that the settings ask for, in their order."""
    return [
        PluginPlan(chosen.name, registries.plugins.get(chosen.name), chosen.settings) for chosen in settings.plugins
    ]


def _try(look: Callable[[], object], place: str) -> str | None:
    try:
        look()
    except ConfigError as error:
        return f"{place}: {error}"
    return None
