"""Is everything as it should be? Looks at what the settings name, and changes nothing.

Each thing that is looked at becomes a finding: sound, or with what is wrong and the command or setting that mends it.
An installation is the processes that live on one store: by them a server is known to be of this one or of another.
"""

import stat
import sys
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rota.__about__ import __version__
from rota.application.attend import ALIVE_FOR
from rota.config.alone import find_refusal
from rota.config.exposure import check_exposure, is_loopback
from rota.config.finding import LOOK_AT_SETTINGS, Finding, unusable
from rota.config.load import Loaded
from rota.config.registry import (
    ETCD_SCHEMES,
    REDIS_SCHEMES,
    SQL_SCHEMES,
    MissingExtraError,
    Registries,
    Surroundings,
    needing,
    scheme_of,
)
from rota.config.schema import find_schema_problem, read_schema, tell_schema
from rota.config.settings import Settings
from rota.domain.declaration import find_missing_calendars
from rota.domain.errors import ConfigError, RotaError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT
from rota.infrastructure.server_urls import split_url
from rota.infrastructure.system import SystemClock, SystemRandom

if TYPE_CHECKING:
    from rota.infrastructure.etcd.health import EtcdHealth

MOST_CLOCK_DIFFERENCE = timedelta(seconds=1)
NOT_TOLD = "not told to this user"
MOST_UNREADABLE = 5  # schedules that are named
MOST_TOKENS = 500  # that are looked at
MOST_TYPES = 1000  # that are looked at
MOST_CALENDARS = 500  # that are looked at
ENDS_SOON = timedelta(days=60)  # the days of a country are announced in the last weeks of a year
MOST_NAMED = 5  # nodes


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, and the roles of the processes that live on the store; None where that cannot be seen."""

    findings: tuple[Finding, ...]
    nodes: Mapping[str, frozenset[str]] | None


async def examine(loaded: Loaded) -> Examined:
    """Settings, store, schema, clock, nodes, coordinator, versions."""
    settings = loaded.settings
    found = [Finding("versions", f"rota {__version__}, Python {sys.version.partition(' ')[0]}")]
    found += [_tell_settings(loaded), *await _examine_store(settings)]
    is_away = settings.store.url == settings.coordinator.url and not all(finding.is_seen for finding in found)
    is_read = any(finding.subject == "schedules" and finding.is_seen for finding in found)
    nodes = await _find_nodes(settings) if is_read else None
    if nodes is not None:
        found.append(Finding("nodes", tell_nodes(nodes)))
    coordinator = [] if is_away else await _examine_coordinator(settings)  # one cause is told once
    return Examined((*found, *coordinator), nodes)


def _tell_settings(loaded: Loaded) -> Finding:
    """Which installation this is about."""
    shown = {row.key: row.value for row in loaded.describe()}
    origins = {row.origin.partition(":")[0].partition(" ")[0] for row in loaded.describe() if loaded.is_set(row.key)}
    sources = ", ".join(sorted(origins)).replace("flag", "--set") or "defaults alone"
    named = ", ".join(f"{key} {shown[key]}" for key in ("store.url", "coordinator.url"))
    place = Path.cwd() if loaded.file is None else loaded.file.resolve()
    return Finding("settings", f"of {place} ({sources}): {named}")


def tell_nodes(nodes: Mapping[str, frozenset[str]]) -> str:
    """Who lives on the store, in words."""
    if not nodes:
        return "no process lives on this store now"
    some = [f"{name} ({', '.join(sorted(nodes[name]))})" for name in sorted(nodes)[:MOST_NAMED]]
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return f"on this store live {', '.join(some)}{more}"


async def _examine_store(settings: Settings) -> list[Finding]:
    is_sql = scheme_of(settings.store.url) in SQL_SCHEMES
    schema = await _try("store", _examine_schema(settings), url=settings.store.url) if is_sql else None
    if schema is not None and not schema.is_sound:
        return [schema]  # it is away, or would be made by looking at its clock
    if scheme_of(settings.store.url) in ETCD_SCHEMES:
        return await _examine_etcd_store(settings)
    if scheme_of(settings.store.url) in REDIS_SCHEMES:
        return await _examine_redis_store(settings)
    clock = await _try("clock", _examine_clock(settings))
    return [*([] if schema is None else [schema]), clock, *await _examine_contents(settings)]


async def _examine_redis_store(settings: Settings) -> list[Finding]:
    access = await _examine_access("store", settings.store.url, prefix=settings.coordinator.prefix)
    if not access.is_sound:
        return [access]
    from rota.config.doctor_redis import examine_store

    clock = await _try("clock", _examine_clock(settings))
    return [access, clock, *await _examine_contents(settings), *await examine_store(settings)]


async def _examine_access(part: str, url: str, *, prefix: str) -> Finding:
    try:
        with needing("redis"):
            from rota.config.doctor_redis import examine_access
    except MissingExtraError as error:
        return unusable(part, error)
    return await examine_access(part, url, prefix=prefix)


async def _examine_etcd_store(settings: Settings) -> list[Finding]:
    """It has no clock of its own. How it is it tells everybody, so what is ours is read as well: that takes a login."""
    found = await _examine_etcd("store", settings.store.url)
    is_away = len(found) == 1
    return found if is_away else [*found, *await _examine_contents(settings)]


async def _examine_contents(settings: Settings) -> list[Finding]:
    schedules = await _try("schedules", _examine_schedules(settings))
    if not schedules.is_sound:
        return [schedules]
    calendars = await _try("calendars", _examine_calendars(settings))
    declared = await _try("schedules in code", _examine_declared(settings))
    return [schedules, calendars, declared]


async def _find_nodes(settings: Settings) -> Mapping[str, frozenset[str]] | None:
    """The processes on the store; None where each process has one of its own, or it does not answer."""
    if scheme_of(settings.store.url) == "memory":
        return None
    around = Surroundings(settings, SystemClock(), SystemRandom())
    try:
        async with Registries().stores.get(scheme_of(settings.store.url))(around) as store:
            alive = await store.nodes.list_alive(since=await store.tasks.now() - ALIVE_FOR)
    except RotaError:
        return None
    return {record.node.id: frozenset(record.node.roles) for record in alive}


async def _examine_schema(settings: Settings) -> Finding:
    if _sqlite_path(settings) is not None and not _has_file(settings):
        return Finding("schema", f"there is no {_sqlite_path(settings)} yet", fix="rota db upgrade")
    now = await read_schema(settings)
    told = f"is {tell_schema(now)}{', as this release needs' if now.is_current else ''}"
    problem = find_schema_problem(now)
    return Finding("schema", told, fix="" if problem is None else problem.fix)


async def _examine_clock(settings: Settings) -> Finding:
    clock, random = SystemClock(), SystemRandom()
    async with Registries().stores.get(scheme_of(settings.store.url))(Surroundings(settings, clock, random)) as store:
        before = clock.now()
        told = await store.tasks.now()
        after = clock.now()
    difference = max(before - told, told - after, timedelta(0))
    text = f"the store's and this machine's differ by {difference.total_seconds():.3f} s at least"
    if difference > MOST_CLOCK_DIFFERENCE:
        return Finding("clock", text, fix="timedatectl set-ntp true")
    return Finding("clock", "the store's and this machine's agree")


async def _examine_schedules(settings: Settings) -> Finding:
    around = Surroundings(settings, SystemClock(), SystemRandom())
    async with Registries().stores.get(scheme_of(settings.store.url))(around) as store:
        found = await store.schedules.list_unreadable(MOST_UNREADABLE)
    if not found:
        return Finding("schedules", "this release can read all of them")
    named = "; ".join(f"{one.type} of tenant {one.tenant_id}: {one.problem}" for one in found)
    return Finding("schedules", f"some cannot be read, and are skipped: {named}", fix="pip install --upgrade rota")


async def _examine_calendars(settings: Settings) -> Finding:
    """Whether those that schedules keep to know the time that is to come."""
    around = Surroundings(settings, SystemClock(), SystemRandom())
    async with Registries().stores.get(scheme_of(settings.store.url))(around) as store:
        soon = await store.tasks.now() + ENDS_SOON
        ending = [
            one
            for one in await store.calendars.list_page(DEFAULT_TENANT, limit=MOST_CALENDARS)
            if one.calendar.years is not None and one.calendar.years[1] < soon.year
        ]
        used = {one.name: await store.calendars.list_users(DEFAULT_TENANT, one.name) for one in ending}
    firing = {name: [one.type for one in users if one.next_fire_at and one.can_fire] for name, users in used.items()}
    told = [
        f"{one.name} knows nothing after {(one.calendar.years or (0, 0))[1]}, and then {', '.join(types[:MOST_NAMED])}"
        f"{' and others' if len(types) > MOST_NAMED else ''} will not fire"
        for one in ending
        if (types := firing[one.name])
    ]
    if not told:
        return Finding("calendars", f"those that schedules name know the next {ENDS_SOON.days} days")
    fix = "give later years to rota calendar put NAME; for those of a country perhaps pip install --upgrade holidays"
    return Finding("calendars", "; ".join(told), fix=fix)


async def _examine_declared(settings: Settings) -> Finding:
    """Whether what the code says of its schedules is in effect: it is left out for want of a calendar."""
    around = Surroundings(settings, SystemClock(), SystemRandom())
    async with Registries().stores.get(scheme_of(settings.store.url))(around) as store:
        types = await store.configs.list_page(DEFAULT_TENANT, limit=MOST_TYPES)
        lacking = {one.type: find_missing_calendars(one) for one in types if find_missing_calendars(one)}
        present = {one.name for one in await store.calendars.list_page(DEFAULT_TENANT, limit=MOST_CALENDARS)}
    if not lacking:
        return Finding("schedules in code", "none is left out")
    told = [f"that of {name}, when there was no calendar {', '.join(lacking[name])}" for name in lacking]
    puts = sorted({f"rota calendar put {name}" for names in lacking.values() for name in names if name not in present})
    fix = ", then ".join([*puts, "start again what has that code"])
    return Finding("schedules in code", f"left out is {'; '.join(told[:MOST_NAMED])}", fix=fix)


async def _examine_coordinator(settings: Settings) -> list[Finding]:
    scheme = scheme_of(settings.coordinator.url)
    if scheme == "memory":
        refusal = find_refusal(settings)
        text = "in memory, for one process alone" if refusal is None else refusal.problem
        return [Finding("coordinator", text, fix="" if refusal is None else refusal.fix)]
    if scheme in REDIS_SCHEMES:
        return await _examine_redis_coordinator(settings)
    coordinator = await _try("coordinator", _examine_leader(settings), url=settings.coordinator.url)
    if scheme in ETCD_SCHEMES and not _is_one_etcd(settings) and coordinator.is_sound:
        told = settings.coordinator
        return [coordinator, *await _examine_etcd("coordinator", told.url, prefix=told.prefix)]
    return [coordinator]


async def _examine_redis_coordinator(settings: Settings) -> list[Finding]:
    told, found = settings.coordinator, []
    if settings.store.url != told.url:  # else the store's findings tell
        found = [await _examine_access("coordinator", told.url, prefix=told.prefix)]
        if not found[0].is_sound:
            return found
    from rota.config.doctor_redis import examine_coordinator

    return [*found, await _try("coordinator", _examine_leader(settings)), *await examine_coordinator(settings)]


def _is_one_etcd(settings: Settings) -> bool:
    """Whether the store's findings tell of the coordinator's servers, too; prefixes aside."""
    store, coordinator = (split_url(url) for url in (settings.store.url, settings.coordinator.url))
    return store.scheme in ETCD_SCHEMES and store.netloc == coordinator.netloc


async def _examine_leader(settings: Settings) -> Finding:
    around = Surroundings(settings, SystemClock(), SystemRandom())
    async with Registries().coordinators.get(scheme_of(settings.coordinator.url))(around) as coordinator:
        leader = await coordinator.election.find_leader()
    return Finding("coordinator", f"can be reached; {f'{leader} leads' if leader else 'nobody leads now'}")


async def _examine_etcd(subject: str, url: str, *, prefix: str | None = None) -> list[Finding]:
    """The prefix is that of our keys there; None: the one of a store."""
    if scheme_of(url) not in ETCD_SCHEMES:
        return []
    try:
        with needing("etcd"):
            from rota.infrastructure.etcd.health import read_etcd_health
            from rota.infrastructure.store.etcd.store import find_prefix
        own = prefix or find_prefix(url)
        health = await read_etcd_health(url, prefix=own, now=SystemClock().now())
    except RotaError as error:
        return [unusable(f"{subject} etcd", error, fix=_mend(f"{subject}.url", url, error=error))]
    if health.spare < 0:
        return [_judge_members(health)]
    version = Finding("etcd version", health.version or NOT_TOLD)
    return [*_judge_space(health), *_judge_history(health, own), _judge_members(health), version]


def _judge_space(health: "EtcdHealth") -> list[Finding]:
    from rota.infrastructure.etcd.alarms import REPLACE
    from rota.infrastructure.etcd.upkeep import NEARLY_FULL, USUAL_QUOTA

    used = f"{health.bytes_in_use / 2**20:.0f} MiB in use" if health.version else NOT_TOLD
    space = Finding("etcd space", used)
    if health.alarms.of_space:
        more = "; where that frees too little, a larger --quota-backend-bytes before"
        fix = f"etcdctl defrag each member, then etcdctl alarm disarm{more}"
        space = Finding("etcd space", f"{used}, {health.alarms.of_space[0]}", fix=fix)
    elif health.bytes_in_use > NEARLY_FULL * (health.quota or USUAL_QUOTA):
        doubt = "" if health.quota else ", unless etcd was given more by --quota-backend-bytes"
        text = f"{used} of {(health.quota or USUAL_QUOTA) / 2**30:g} GiB{doubt}"
        space = Finding("etcd space", text, fix="a shorter task.retention")
    return [space, *(Finding("etcd alarm", one, fix=REPLACE) for one in health.alarms.others)]


def _judge_history(health: "EtcdHealth", prefix: str) -> list[Finding]:
    from rota.infrastructure.etcd.health import History
    from rota.infrastructure.etcd.upkeep import COMPACT_BY_ITSELF, KEPT_FOR

    if health.history is History.FORGOTTEN:
        return []
    if health.history is History.UNSEEN:
        text = f"cannot be seen: Rota's user must not read what is under /{prefix}/"
        fix = f"etcdctl role grant-permission --prefix=true ROLE readwrite /{prefix}/"
        return [Finding("etcd history", text, fix=fix)]
    lately = f"for {KEPT_FOR // timedelta(minutes=1)} minutes and more nobody has"
    text = f"kept: Rota's user must not compact it, and {lately}, so that etcd grows with every write"
    return [Finding("etcd history", text, fix=COMPACT_BY_ITSELF)]


def _judge_members(health: "EtcdHealth") -> Finding:
    if health.members == 1:
        return Finding("etcd members", "one named: when it is away, so is Rota")
    text = f"{health.members - len(health.away)} of {health.members} answer"
    if not health.away:
        return Finding("etcd members", text)
    if health.spare == 0:
        text += "; one more and Rota stops"
    elif health.spare < 0:
        text += f"; without {-health.spare} more Rota stands still"
    return Finding("etcd members", text, fix=f"start etcd at {', '.join(health.away)}")


def _mend(key: str, url: str, *, error: RotaError) -> str:
    """What to do about a server that cannot be used: of an etcd most members must live."""
    if scheme_of(url) in SQL_SCHEMES and split_url(url).netloc:
        server = split_url(url).netloc.rpartition("@")[2]
        if isinstance(error, UnavailableError):
            return f"start the database at {server}, or correct {key}"
        return f"correct user, password and database in {key}, or let the server at {server} know them"
    if scheme_of(url) not in ETCD_SCHEMES or not isinstance(error, UnavailableError):
        return LOOK_AT_SETTINGS
    from rota.infrastructure.etcd.health import list_members

    members = list_members(url)
    few = f"; of these {len(members)} it needs {len(members) // 2 + 1}" if len(members) > 1 else ""
    return f"start etcd, or correct {key}: etcdctl endpoint health --endpoints={','.join(members)}{few}"


async def _try(subject: str, looking: Awaitable[Finding], *, url: str = "") -> Finding:
    """What cannot be looked at is a finding too."""
    try:
        return await looking
    except RotaError as error:
        return unusable(subject, error, fix=_mend(f"{subject}.url", url, error=error))


async def examine_tokens(settings: Settings, *, own: str = "") -> list[Finding]:
    """Who can come in for ever; but for the token that `rota dev` left in this folder for its own commands."""
    if not _has_file(settings):
        return []
    around = Surroundings(settings, SystemClock(), SystemRandom())
    try:
        async with Registries().stores.get(scheme_of(settings.store.url))(around) as store:
            found = await store.tokens.list_page(DEFAULT_TENANT, limit=MOST_TOKENS)
    except RotaError as error:
        return [Finding("tokens", str(error), fix="rota db upgrade")]
    lasting = [token for token in found if token.expires_at is None and token.revoked_at is None]
    endless = [token for token in lasting if not own.startswith(f"rota_{token.id}_")]
    return [
        Finding("tokens", f"{token.id} ({token.name}) never expires", fix=f"rota token revoke {token.id}")
        for token in endless
    ] or [Finding("tokens", _tell_sound(len(found), kept=len(lasting)))]


def _tell_sound(number: int, *, kept: int) -> str:
    return f"all {number} expire or are revoked" + (", but for the one of this folder" if kept else "")


def examine_files(loaded: Loaded, settings_file: Path | None) -> Iterator[Finding]:
    """Who else on this machine may read what is secret."""
    database = _sqlite_path(loaded.settings)
    secret = [Path(".rota/token")]
    if database is not None:
        secret += [database, *(database.with_name(f"{database.name}{end}") for end in ("-wal", "-shm"))]
    if settings_file is not None:
        secret.append(settings_file)
    for path in secret:
        if path.exists():
            yield _examine_mode(path)


def examine_network(settings: Settings) -> Iterator[Finding]:
    """Who else on the network may listen."""
    yield from _examine_bind(settings)
    if settings.monitor.port is not None:
        host = settings.monitor.host
        readers = "this machine alone" if is_loopback(host) else "whoever reaches it, without a token"
        yield Finding("monitor.host", f"{host}: health and figures for {readers}")
    for key, url in (("store.url", settings.store.url), ("coordinator.url", settings.coordinator.url)):
        server = split_url(url).hostname
        if server is None or is_loopback(server):
            continue
        if scheme_of(url) in REDIS_SCHEMES and not scheme_of(url).startswith("rediss"):
            fix = f"{scheme_of(url).replace('redis', 'rediss', 1)}:// in {key}, with TLS in Redis"
            yield Finding(key, f"talks to {server} without TLS", fix=fix)
        elif scheme_of(url) == "etcd":
            yield Finding(key, f"talks to {server} without TLS", fix=f"etcds:// in {key}, with TLS in etcd")
        else:
            yield Finding(key, f"is on {server}")


def _examine_bind(settings: Settings) -> Iterator[Finding]:
    host = settings.api.host
    try:
        check_exposure(settings.api)
    except ConfigError as error:
        yield Finding("api.host", error.problem, fix=error.fix)
        return
    way = "this machine alone" if is_loopback(host) else "with TLS" if settings.api.tls_cert else "behind a TLS proxy"
    yield Finding("api.host", f"{host}: {way}")


def _examine_mode(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding(str(path), f"mode {mode:o}: others on this machine can open it", fix=f"chmod 600 {path}")
    return Finding(str(path), f"mode {mode:o}")


def _sqlite_path(settings: Settings) -> Path | None:
    scheme, _, rest = settings.store.url.partition(":///")
    return Path(rest.partition("?")[0]) if scheme == "sqlite" and rest else None


def _has_file(settings: Settings) -> bool:
    path = _sqlite_path(settings)
    return path is None or path.exists()
