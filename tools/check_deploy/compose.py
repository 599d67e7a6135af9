"""The compose file under each of its topologies, with the variables that .env would bring."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from rota.domain.durations import parse_duration
from tools.check_deploy.product import (
    VERSION,
    Launch,
    check_launch,
    drains_within,
    fits_memory,
    is_refused,
    keeps_results,
    ports_of,
)

USUAL_URL = "http://127.0.0.1:8420"  # that `rota health` asks if it is told of none
ON_DEMAND = ("build", "client")
REPOSITORY = "rota"
PASSWORD = {"DB_PASSWORD": "0" * 48}
VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::(?P<sign>[-?])(?P<rest>[^{}]*))?\})")
HOST = re.compile(r"^\w+://(?:[^@/]*@)?([\w.-]+)")
Service = Mapping[str, Any]


class UnsetError(Exception):
    """A variable that the file insists on has no value."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A compose file as one .env makes it."""

    name: str
    services: Mapping[str, Service]  # those that run
    volumes: frozenset[str]


def check_compose(folder: Path) -> Iterator[str]:
    text = (folder / "compose.yaml").read_text("utf-8")
    yield from _check_builds(yaml.safe_load(text)["services"])
    chosen = sorted((folder / "env").glob("*.env"))
    if not chosen:
        yield "deploy/env: no topology in it"
    for path in chosen:
        try:
            topology = read_topology(text, path)
        except UnsetError as error:
            yield f"compose.yaml with {path.name}: {error} has no value"
            continue
        for name, service in topology.services.items():
            place = f"compose.yaml with {path.name}: {name}"
            yield from _check_service(service, place, topology=topology)


def read_topology(text: str, path: Path) -> Topology:
    """The file with the variables of one .env, and what of it runs then."""
    variables = dict(PASSWORD)
    for line in path.read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            variables[name] = interpolate(value, variables)
    whole = yaml.safe_load(text)
    profiles = {*variables.get("COMPOSE_PROFILES", "").split(","), *ON_DEMAND}
    services = {
        name: _fill(service, variables)
        for name, service in whole["services"].items()
        if not service.get("profiles") or profiles & set(service["profiles"])
    }
    return Topology(path.stem, services, frozenset(whole.get("volumes", {})))


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """`${NAME}`, `${NAME:-default}` and `${NAME:?message}`, as compose does it."""

    def replace(found: re.Match[str]) -> str:
        if found["name"] is None:
            return "$"
        value = variables.get(found["name"], "")
        if not value and found["sign"] == "?":
            raise UnsetError(found["name"])
        return value or (found["rest"] or "" if found["sign"] == "-" else "")

    return VARIABLE.sub(replace, text)


def _fill(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return interpolate(value, variables)
    if isinstance(value, dict):
        return {key: _fill(one, variables) for key, one in value.items()}
    return [_fill(one, variables) for one in value] if isinstance(value, list) else value


def _check_service(service: Service, place: str, *, topology: Topology) -> Iterator[str]:
    yield from _check_surroundings(service, place, topology=topology)
    if service["image"].partition(":")[0] != REPOSITORY:  # a server
        return
    if service["image"] != f"rota:{VERSION}":
        yield f"{place}: its image is {service['image']}, this release is {VERSION}"
    launch = _launch(service, place)
    yield from check_launch(launch)
    yield from drains_within(launch, parse_duration("stop_grace_period", service["stop_grace_period"]).total_seconds())
    yield from keeps_results(launch, {volume.split(":")[1] for volume in service.get("volumes", ())})
    yield from fits_memory(launch, _limits(service).get("memory"))
    yield from _check_ports(service, launch)
    yield from _check_health(service.get("healthcheck", {}).get("test", ()), launch)
    for key in ("ROTA_STORE__URL", "ROTA_COORDINATOR__URL", "ROTA_URL"):
        host = HOST.match(launch.variables.get(key, ""))
        if host is not None and host[1] not in topology.services:
            yield f"{place}: {key} leads to {host[1]}, which does not run in this topology"
        elif host is not None and key == "ROTA_URL":
            server = _launch(topology.services[host[1]], host[1])
            if is_refused(server, host.string):
                yield f"{place}: {host.string} is refused by {host[1]}, which does not know this name"


def _launch(service: Service, place: str) -> Launch:
    return Launch(place, service.get("command", ()), service.get("environment", {}))


def _check_builds(services: Mapping[str, Service]) -> Iterator[str]:
    """What is built here has a name of its own."""
    for name, service in services.items():
        if "build" in service and VARIABLE.search(service["image"]):
            yield f"compose.yaml: {name}: a build of it would take the name of the user's image, {service['image']}"


def _check_surroundings(service: Service, place: str, *, topology: Topology) -> Iterator[str]:
    if "healthcheck" not in service:
        yield f"{place}: has no health check, nor says that it has none"
    asked = service.get("healthcheck", {}).get("test", ())
    if "pg_isready" in asked and not any(word.startswith("--host=") for word in asked):
        yield f"{place}: its health check asks the socket, where PostgreSQL answers before others can reach it"
    if not {"cpus", "memory"} <= set(_limits(service)):
        yield f"{place}: has no limits"
    if "sh" in service.get("command", ())[:1] and "user" not in service:
        yield f"{place}: an image leaves root for its own server alone, and not for a shell"
    for name, rule in service.get("depends_on", {}).items():
        if name not in topology.services and rule.get("required", True):
            yield f"{place}: waits for {name}, which does not run in this topology"
    for volume in service.get("volumes", ()):
        if volume.partition(":")[0] not in topology.volumes:
            yield f"{place}: its volume {volume} is not declared"


def _limits(service: Service) -> Mapping[str, str]:
    limits: Mapping[str, str] = service.get("deploy", {}).get("resources", {}).get("limits", {})
    return limits


def _check_ports(service: Service, launch: Launch) -> Iterator[str]:
    listening = ports_of(launch)
    for published in service.get("ports", ()):
        address, _, inside = published.rpartition(":")
        if int(inside) not in listening.values():
            yield f"{launch.place}: nobody listens at its port {inside}"
        if not address.startswith("127.0.0.1:"):
            yield f"{launch.place}: {published} is reachable from other machines without TLS"


def _check_health(test: Sequence[str], launch: Launch) -> Iterator[str]:
    """Whoever is asked how it is listens there."""
    if list(test[:3]) != ["CMD", "rota", "health"]:
        return
    asked = test[test.index("--url") + 1] if "--url" in test else USUAL_URL
    port = urlsplit(asked).port
    if port not in ports_of(launch).values():
        yield f"{launch.place}: its health check asks the port {port}, where nobody listens"
    if is_refused(launch, asked):
        yield f"{launch.place}: its health check asks {asked}, a name that it does not know"
