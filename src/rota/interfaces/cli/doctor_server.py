"""The server that commands ask, and the ports of the settings: are they of the installation that was looked at?

A server tells its nodes, and each of them has noted itself in the store. So one of which no node lives on the store of
these settings is of another installation, however alike the two are.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING

from rota.__about__ import __version__
from rota.client.folder import read_token_file
from rota.client.place import find_served
from rota.config.exposure import is_loopback
from rota.config.finding import Finding
from rota.config.settings import ApiSettings, Settings
from rota.domain.errors import RotaError, UnauthenticatedError, UnavailableError
from rota.domain.worker import ANY_TYPE, OF_MODULE, names_of, needed_for
from rota.interfaces.cli.connect import ALONE, connect
from rota.interfaces.cli.errors import NOT_ASKED, UNREADABLE, suggest
from rota.interfaces.cli.refused import advise
from rota.interfaces.cli.typed import Typed
from rota.interfaces.ports import is_taken, suggest_ports
from rota.wire.cluster import Cluster
from rota.wire.config import TaskConfig

if TYPE_CHECKING:
    from rota.client.blocking import Client

Nodes = Mapping[str, frozenset[str]] | None  # the roles of those that live on the store; None: it cannot be seen
NAMED = 3
MOST_TYPES = 1000  # that are looked at
API = "api"


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which server, and who says so."""

    url: str
    source: str
    is_named: bool

    def __str__(self) -> str:
        return f"{self.url} ({self.source})"


def examine_server(typed: Typed, settings: Settings, *, nodes: Nodes, is_told: bool) -> Iterator[Finding]:
    """The server that commands would ask; none is no fault unless somebody named one. `is_told`: that something is
    away, so that a server which says the same is no second fault."""
    asked = _find_asked(typed.find("--url"), settings.api)
    try:
        with connect(asked.url, timeout="5s") as client:
            cluster = client.cluster()
            found = _compare(cluster, asked, nodes=nodes, fix=typed.without_url())
            types = list(_examine_types(client, typed, is_alone=cluster.coordinator == ALONE)) if found.is_sound else []
    except UnauthenticatedError as error:
        yield _tell_refused(error, asked, nodes=nodes, typed=typed)
    except RotaError as error:
        if isinstance(error, UnavailableError) and error.code not in (*NOT_ASKED, UNREADABLE):
            text = f"{asked} answers, and what it needs does not: {error}"
            yield Finding("server", text, fix="" if is_told else "rota doctor, where that server runs")
        elif asked.is_named:
            fix = suggest(error, typed)
            yield Finding(
                "server",
                f"{asked.source}: {error}",
                fix=typed.without_url() if fix == typed.beside("rota doctor") else fix,
            )
        else:
            yield Finding("server", f"none of this installation answers at {asked}; ROTA_URL says where one is")
    else:
        yield from (found, *types)


def _examine_types(client: "Client", typed: Typed, *, is_alone: bool) -> Iterator[Finding]:
    """Whether a worker lives for everything that schedules fire."""
    alive = [worker for worker in client.workers.list() if worker.alive]
    names = {name for worker in alive for name in worker.types}
    firing = [one for one in islice(client.configs.list(), MOST_TYPES) if one.enabled and one.next_fire_at]
    if not firing:
        return
    lacking = [] if ANY_TYPE in names else [one for one in firing if names.isdisjoint(names_of(one.type, _needed(one)))]
    if not lacking:
        yield Finding("scheduled types", "a worker lives for each of them")
        return
    more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
    text = f"no worker lives that supports {', '.join(one.type for one in lacking[:NAMED])}{more}"
    module = _needed(lacking[0]).removeprefix(OF_MODULE)
    is_module = _needed(lacking[0]).startswith(OF_MODULE)
    if is_alone:
        way = f"start it with {module if is_module else 'the file that has the function'}, or pause the schedule"
        text = f"{text}; all of Rota is one process here, which no other worker can join: {way}"
        yield Finding("scheduled types", text, fix=typed.beside(f"rota schedule pause {quote(lacking[0].type)}"))
        return
    fix = f"rota worker --app {module if is_module else 'FILE.py'}"
    yield Finding("scheduled types", f"{text}; rota task explain says what one of their tasks waits for", fix=fix)


def _needed(config: TaskConfig) -> str:
    return needed_for(str(config.executor.get("type")), config.executor.get("function"))


def _find_asked(url: str | None, api: ApiSettings) -> _Asked:
    named = os.environ.get("ROTA_URL")
    if url or named:
        return _Asked(url or named or "", "--url" if url else "ROTA_URL", is_named=True)
    if served := find_served():
        return _Asked(served, "the rota dev of this folder", is_named=False)
    host = api.host if is_loopback(api.host) else "127.0.0.1"
    scheme = "https" if api.tls_cert else "http"
    return _Asked(f"{scheme}://{f'[{host}]' if ':' in host else host}:{api.port}", "api.port", is_named=False)


def _tell_refused(error: UnauthenticatedError, asked: _Asked, *, nodes: Nodes, typed: Typed) -> Finding:
    """Of a server that lets nobody in, it is known whose it is only where it cannot be of this installation."""
    if nodes is not None and not _servers(nodes):
        text = f"{asked} answers, and is of another installation: of this one no API lives"
        return Finding("server", text, fix=typed.without_url() if asked.is_named else "")
    if os.environ.get("ROTA_TOKEN") or read_token_file():
        text, fix = advise(error, typed, role="viewer")
        return Finding("server", f"{asked}: {text}", fix=fix)
    return Finding("server", f"{asked} answers, and wants a token: without one it does not say whose it is")


def _compare(found: Cluster, asked: _Asked, *, nodes: Nodes, fix: str) -> Finding:
    """Whether the server and what else was looked at are of one installation, and of one release."""
    served = {node.id for node in found.nodes}
    if nodes is not None and not served & set(nodes):
        some = ", ".join(sorted(served)[:NAMED]) or "none that it knows"
        text = f"{asked} is of another installation, on {found.store} and {found.coordinator} with the nodes {some}"
        return Finding(
            "server", f"{text}; with its settings --config looks at that one", fix=fix if asked.is_named else ""
        )
    versions = {__version__, found.version, *(node.version for node in found.nodes)}
    if len(versions) > 1:
        text = f"the nodes of {asked} and this command have different releases: {', '.join(sorted(versions))}"
        return Finding("server", text, fix="pip install --upgrade rota")
    whose = "whose store cannot be seen from here" if nodes is None else "of this installation"
    return Finding("server", f"{asked} answers, {whose}, nodes {len(found.nodes)}, release {found.version}")


def examine_ports(settings: Settings, nodes: Nodes) -> Iterator[Finding]:
    """Whether the API of these settings can be served here, or is."""
    api = settings.api
    ports = {"port": api.port, **({} if api.grpc_port is None else {"grpc_port": api.grpc_port})}
    if is_taken(api.host, 0):  # an address of another machine
        return
    taken = [key for key, port in ports.items() if is_taken(api.host, port)]
    if not taken:
        yield Finding("ports", f"free at {api.host}: {', '.join(map(str, ports.values()))}")
        return
    named = f"taken at {api.host}: {', '.join(f'{ports[key]} (api.{key})' for key in taken)}"
    if nodes is None:
        yield Finding("ports", f"{named}; by whom cannot be seen from here")
    elif servers := _servers(nodes):
        own = f"{', '.join(servers)} serve the API of this installation, and which ports they have is not known here"
        yield Finding("ports", f"{named}; by whom is not known: {own}")
    else:
        text = f"{named}; by something that is not of this installation"
        yield Finding("ports", text, fix=f"rota server {suggest_ports(api, *taken)}")


def _servers(nodes: Mapping[str, frozenset[str]]) -> list[str]:
    """The nodes that serve the API."""
    return sorted(name for name, roles in nodes.items() if API in roles)[:NAMED]
