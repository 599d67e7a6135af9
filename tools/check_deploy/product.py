"""What the product has, for files that name it: settings, commands, paths, metrics. Asked of its own code."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from rota.__about__ import __version__
from rota.application.metrics import CATALOGUE
from rota.config.exposure import check_exposure, is_loopback
from rota.config.load import DIVIDER, PREFIX, SettingsError, Sources, load
from rota.config.registry import Registries, load_known
from rota.config.settings import SCHEMA, Settings
from rota.domain.errors import ConfigError
from rota.interfaces.cli.main import cli
from rota.interfaces.http.app import PUBLIC
from rota.interfaces.http.gate import host_name
from rota.interfaces.http.server import known_hosts

VERSION = __version__
PROCESS_MIB, TASK_MIB = 128, 64  # a worker by itself, and the process of a `def` task with the imports that are usual
LEAVING_S = 13  # a process whose last task has ended reports and leaves the pool: docs/guides/running-a-cluster.md
PROBES = frozenset({"/livez", "/readyz"}) & PUBLIC
CLIENT_VARIABLES = frozenset({"ROTA_URL", "ROTA_TOKEN", "ROTA_CONFIG"})  # those that are no settings
METRICS = frozenset(metric.name for metric in CATALOGUE)
VARIABLES = frozenset(entry.variable for entry in SCHEMA.values())
VARIABLE = re.compile(rf"\b{PREFIX}[A-Z_]+{DIVIDER}[A-Z_]+\b")
METRIC = re.compile(
    r"\brota_(?:queue|tasks|scheduler|workers?|attempts|schedules?|http|grpc|connections?|coordinator)_\w+"
)
MEMORY = re.compile(r"^(\d+)([MG])i?$")
WITH_API = frozenset({"api", "server"})
WITH_WORKER = frozenset({"server", "worker"})
PROCESSES = WITH_API | {"scheduler", "worker"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A process as some file starts it: the words after `rota`, its variables, and its settings file."""

    place: str
    words: Sequence[str]
    variables: Mapping[str, str]
    file: Path | None = None

    @property
    def role(self) -> str:
        return self.words[0] if self.words else ""


def ports_of(launch: Launch) -> dict[str, int]:
    """Where it would listen, by name; nowhere if it would not start, or does not stay."""
    settings = settings_of(launch)
    if settings is None or launch.role not in PROCESSES:
        return {}
    api, monitor = settings.api, settings.monitor
    ports = {"http": api.port, "grpc": api.grpc_port} if launch.role in WITH_API else {}
    return {name: port for name, port in {**ports, "monitor": monitor.port}.items() if port}


def is_refused(launch: Launch, url: str) -> bool:
    """Whether the API there would not answer to the name in a URL."""
    settings, address = settings_of(launch), urlsplit(url)
    if settings is None or ("http", address.port) not in ports_of(launch).items():
        return False
    known = known_hosts(settings.api)
    return known is not None and host_name(address.netloc.encode()) not in known


def is_monitored_from_outside(launch: Launch) -> bool:
    """Whether others than its own machine, or container, can ask how it is."""
    settings = settings_of(launch)
    return settings is not None and settings.monitor.port is not None and not is_loopback(settings.monitor.host)


def check_launch(launch: Launch) -> Iterator[str]:
    """Everything that would keep it from starting, as far as that can be said without its servers."""
    for problem in (*_check_command(launch.words), *_check_variables(launch)):
        yield f"{launch.place}: {problem}"


def settings_of(launch: Launch) -> Settings | None:
    """What it would run with; None if it would not start."""
    try:
        return load(_sources(launch)).settings
    except ConfigError:
        return None


def drains_within(launch: Launch, seconds: float) -> Iterator[str]:
    """Whoever ends it must wait until it has drained."""
    settings = settings_of(launch)
    if settings is None:
        return
    worker = settings.worker
    needed = (worker.drain_timeout + worker.stop_grace).total_seconds() + LEAVING_S
    if seconds <= needed:
        yield f"{launch.place}: it is killed after {seconds:g} s, but may need {needed:g} s to drain"


def fits_memory(launch: Launch, limit: str | None) -> Iterator[str]:
    """Whoever runs a worker has room for as many `def` tasks as it takes, each in a process of its own."""
    settings = settings_of(launch)
    if settings is None or limit is None or launch.role not in WITH_WORKER:
        return
    needed = PROCESS_MIB + settings.worker.capacity * TASK_MIB
    if _mebibytes(limit) < needed:
        yield f"{launch.place}: may use {limit} of memory, but its {settings.worker.capacity} tasks need {needed} MiB"


def keeps_results(launch: Launch, kept: Collection[str]) -> Iterator[str]:
    """Whoever runs a worker has a spool, in one of the folders that outlive it."""
    settings = settings_of(launch)
    if settings is None or launch.role not in WITH_WORKER or settings.worker.spool in kept:
        return
    spool, stays = settings.worker.spool, ", ".join(sorted(kept)) or "nothing"
    yield f"{launch.place}: results that wait for the store end with it: what stays is {stays}, its spool {spool}"


def check_words(text: str, place: str) -> Iterator[str]:
    """Settings and metrics that a text names, wherever they stand in it."""
    for name in sorted(set(VARIABLE.findall(text)) - VARIABLES):
        yield f"{place}: {name} is no setting"
    for name in sorted(set(METRIC.findall(text)) - METRICS):
        yield f"{place}: {name} is no metric"


def _mebibytes(limit: str) -> int:
    """`512Mi` and `1Gi` of Kubernetes, `512M` and `1G` of compose, which are the same."""
    number, unit = MEMORY.findall(limit)[0]
    return int(number) * (1024 if unit == "G" else 1)


def _sources(launch: Launch) -> Sources:
    flags = [word for before, word in zip(launch.words, launch.words[1:], strict=False) if before == "--set"]
    return Sources(
        file=launch.file,
        environment=launch.variables,
        flags={key: value for key, _, value in (flag.partition("=") for flag in flags)},
        folder=Path("/nonexistent"),
    )


def _check_variables(launch: Launch) -> Iterator[str]:
    ours = {name for name in launch.variables if name.startswith(PREFIX)}
    for name in sorted(ours - VARIABLES - CLIENT_VARIABLES):
        yield f"{name} is neither a setting nor a variable of the client"
    try:
        loaded = load_known(_sources(launch), Registries())
        if launch.role in WITH_API:
            check_exposure(loaded.settings.api)
    except SettingsError as error:
        yield from error.problems
    except ConfigError as error:
        yield str(error)


def _check_command(words: Sequence[str]) -> Iterator[str]:
    """Whether `rota` would understand these words."""
    command: click.Command = cli
    context = click.Context(cli, info_name="rota")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            yield f"there is no command rota {' '.join(words)}"
            return
        command, rest = found, rest[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    try:
        command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        yield f"rota {' '.join(words)}: {error.format_message()}"
