"""Settings from four sources, each stronger than the one before: defaults, file, environment, flags.

What is set is told apart from what has its default, and where each value came from is remembered. Every problem of
every source is found before anything is reported: one error with all of them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rota.config.file import read_file
from rota.config.settings import SCHEMA, SECTIONS, Entry, Settings, list_conflicts, values_of, with_values
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.setting import Setting, SettingSource
from rota.infrastructure.server_urls import split_url
from rota.infrastructure.telemetry.redact import COVER, redact, redact_named

DEFAULT_FILE = "rota.yaml"
DEFAULT_ORIGIN = "default"
ENVIRONMENT_ORIGIN = "environment "
FILE_ORIGIN = re.compile(r":\d+$")  # the line; no other origin ends so
PREFIX = "ROTA_"
SERVER_SCHEMES = ("mysql", "mariadb", "postgresql")
ETCD_SCHEMES = ("etcd", "etcds")
IN_MEMORY_RETENTION = timedelta(days=7)  # of a store that holds all its tasks in memory
LINKS = ("tcp://", "udp://")  # Kubernetes puts ROTA_API_PORT=tcp://… into pods beside a service named rota-api
DIVIDER = "__"  # `ROTA_URL` and `ROTA_TOKEN` are the client's: only names with a section are settings


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it was given, and where."""

    key: str
    raw: Any
    origin: str


class SettingsError(ConfigError):
    """Settings that cannot be used: all that is wrong with them."""

    def __init__(self, problems: Sequence[str], *, fix: str = "rota settings check") -> None:
        super().__init__("\n".join(problems), fix=fix)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where settings are looked for."""

    file: Path | None = None  # None: `rota.yaml` in the folder, if it is there
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)  # by dotted key; None is not set
    folder: Path = Path()
    program: str | None = None  # what the flags are called where a program has given them, and no command line

    def find_file(self) -> Path | None:
        """The file to read, or None when there is none and none was asked for."""
        if self.file is not None:
            return self.file
        usual = self.folder / DEFAULT_FILE
        return usual if usual.exists() else None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each value came from."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None = None  # that was read

    def is_set(self, key: str) -> bool:
        """Whether somebody chose the value, be it the default's."""
        return source_of(self.origins[key]) is not SettingSource.DEFAULT

    def describe(self) -> list[Setting]:
        """All settings in the order of the schema, with plain values, secrets covered."""
        values = values_of(self.settings)
        return [
            Setting(
                key=key,
                value=redact_named(key, entry.kind.write(values[key])),
                default=redact_named(key, entry.kind.write(entry.default)),
                source=source_of(self.origins[key]),
                origin=self.origins[key],
                text=entry.text,
                is_live=entry.is_live,
            )
            for key, entry in SCHEMA.items()
        ]


def source_of(origin: str) -> SettingSource:
    """Which of the sources an origin names; a file may be called anything."""
    if FILE_ORIGIN.search(origin):
        return SettingSource.FILE
    if origin.startswith(DEFAULT_ORIGIN):
        return SettingSource.DEFAULT
    return SettingSource.ENVIRONMENT if origin.startswith(ENVIRONMENT_ORIGIN) else SettingSource.FLAG


def find_variable(key: str) -> str | None:
    """The environment variable of a setting, if there is such a setting."""
    return SCHEMA[key].variable if key in SCHEMA else None


def cover(text: str, *, by: str) -> str:
    """What a command was given, such as `store.url=mysql://…` or JSON, with something else in place of its secrets."""
    name, equals, value = text.partition("=")
    if equals and name.replace(".", "").isidentifier():
        return f"{name}={redact_named(name, value)}".replace(COVER, by)
    try:
        read = json.loads(text)
    except ValueError:
        return str(redact(text)).replace(COVER, by)
    covered = redact(read)
    return text if covered == read else json.dumps(covered, ensure_ascii=False).replace(COVER, by)


Look = Callable[["Loaded"], Iterable[str]]  # what is wrong with values that are sound by themselves


def load(sources: Sources, look: Look = lambda _: ()) -> Loaded:
    """Read everything, or raise one `SettingsError` with all that is wrong."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    origins = dict.fromkeys(SCHEMA, DEFAULT_ORIGIN)
    for given in _list_given(sources, problems):
        entry = SCHEMA[given.key]
        try:
            values[given.key] = entry.kind.read(given.key, given.raw)
        except InvalidError as error:
            problems.append(_explain(error, given.origin, entry=entry))
        origins[given.key] = given.origin
    for usual in (_defaults_for_store, _defaults_for_coordinator):
        for key, value in usual(values).items():
            if key not in values:
                values[key], origins[key] = value, "default for such a store"
    settings = with_values(values)
    if not problems:  # else a conflict may be with the default in place of what is wrong
        problems += [_explain(error, origins[error.field]) for error in list_conflicts(settings)]
    loaded = Loaded(settings, origins, sources.find_file())
    problems += look(loaded)
    if problems:
        raise SettingsError(problems)
    return loaded


def _defaults_for_store(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is usual with such a store: the coordinator in memory is one process's own, and a server is for many."""
    store_url = values.get("store.url", "")
    scheme = store_url.partition("://")[0].lower()
    if scheme in SERVER_SCHEMES:
        return {"coordinator.url": "sql://"}
    if scheme.partition("+")[0] in ("redis", "rediss"):
        return {"coordinator.url": store_url, "task.retention": IN_MEMORY_RETENTION}
    return {"coordinator.url": store_url} if scheme in ETCD_SCHEMES else {}


def _defaults_for_coordinator(values: Mapping[str, Any]) -> dict[str, Any]:
    """The path of an etcd is the prefix of its keys: whoever says it for two clusters means two."""
    parts = split_url(values.get("coordinator.url", ""))
    path = unquote(parts.path).strip("/")
    return {"coordinator.prefix": path} if parts.scheme in ETCD_SCHEMES and path else {}


def _explain(error: InvalidError, origin: str, *, entry: Entry | None = None) -> str:
    told = f"{error.field} in {origin}: {error.problem}"
    return told if entry is None or entry.kind.allowed in told else f"{told}; allowed is {entry.kind.allowed}"


def _list_given(sources: Sources, problems: list[str]) -> Iterator[Given]:
    """The weakest first. What is wrong with a source goes to the problems."""
    path = sources.find_file()
    if path is not None:
        yield from _list_file(path, problems)
    yield from _list_environment(sources.environment, problems)
    yield from _list_flags(sources, problems)


def _list_file(path: Path, problems: list[str]) -> Iterator[Given]:
    try:
        found = read_file(path)
    except ConfigError as error:
        problems.append(str(error))
        return
    problems.extend(found.problems)
    for key, (raw, line) in found.values.items():
        if key in SCHEMA:
            yield Given(key, raw, origin=f"{path.name}:{line}")
        else:
            problems.append(_unknown(key, [*SCHEMA, *SECTIONS], where=f"in {path.name}:{line}"))


def _list_environment(environment: Mapping[str, str], problems: list[str]) -> Iterator[Given]:
    variables = {entry.variable: entry for entry in SCHEMA.values()}
    meant = {name.replace(DIVIDER, "_"): name for name in variables}
    for name, raw in sorted(environment.items()):
        if name in variables:
            yield Given(variables[name].key, raw, origin=f"{ENVIRONMENT_ORIGIN}{name}")
        elif name in meant and not raw.startswith(LINKS):
            problems.append(
                f"{name} in the environment sets nothing; two underscores follow the section: {meant[name]}"
            )
        elif name.startswith(PREFIX) and DIVIDER in name:
            problems.append(_unknown(name, variables, where="in the environment"))


def _list_flags(sources: Sources, problems: list[str]) -> Iterator[Given]:
    for key, raw in sources.flags.items():
        if key not in SCHEMA:
            problems.append(_unknown(key, SCHEMA, where=f"in {sources.program or 'the flags'}"))
        elif raw is not None:
            yield Given(key, raw, origin=sources.program or f"flag {SCHEMA[key].flag}")


def _unknown(name: str, known: Iterable[str], *, where: str) -> str:
    near = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else "; rota settings show lists them all"
    return f"unknown setting {name} {where}{hint}"
