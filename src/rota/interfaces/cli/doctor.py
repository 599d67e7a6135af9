"""`rota doctor`: is everything as it should be, and if not, what to do."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.interfaces.cli.connect import connect, find_token, read_token_file, server_option
from rota.interfaces.cli.errors import FAILURE, OK
from rota.interfaces.cli.options import config_option, load_settings, read_changes, set_option, sources_of
from rota.interfaces.cli.refused import advise
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.config.doctor import Finding
    from rota.config.settings import Settings
    from rota.wire.cluster import Cluster


@click.command()
@config_option
@set_option
@click.option("--security", is_flag=True, help="Also look at who could listen, come in, or read along.")
@server_option
def doctor(config: Path | None, *, changes: tuple[str, ...], security: bool, url: str | None) -> int:
    """Look at store, schema, clock, coordinator and versions; fails when something is not sound."""
    from rota.config.doctor import examine, examine_files, examine_network, examine_tokens

    flags = read_changes(changes)
    loaded = load_settings(config, flags)
    findings = [*asyncio.run(examine(loaded)), *_examine_server(url, loaded.settings)]
    if security:
        findings += examine_network(loaded.settings)
        findings += asyncio.run(examine_tokens(loaded.settings, own=read_token_file() or ""))
        findings += examine_files(loaded, sources_of(config, flags).find_file())
        findings += _examine_token_way(url)
    for finding in findings:
        click.echo(f"{'ok  ' if finding.is_sound else 'FAIL'}  {finding.subject}: {safe(finding.text)}")
        if not finding.is_sound:
            click.echo(f"      try: {safe(finding.fix)}")
    return OK if all(finding.is_sound for finding in findings) else FAILURE


def _examine_server(url: str | None, settings: "Settings") -> "Iterator[Finding]":
    """The server that commands would ask; none is no fault unless somebody named one."""
    from rota.__about__ import __version__
    from rota.config.doctor import Finding
    from rota.domain.errors import RotaError, UnauthenticatedError

    try:
        with connect(url, timeout="5s") as client:
            found = client.cluster()
    except UnauthenticatedError as error:
        is_shown = bool(os.environ.get("ROTA_TOKEN") or find_token())
        text, fix = advise(error, role="viewer") if is_shown else ("answers, and wants a token: ROTA_TOKEN", "")
        yield Finding("server", text, fix=fix)
        return
    except RotaError as error:
        named = url or os.environ.get("ROTA_URL")
        if named:
            yield Finding("server", f"{named}: {error}", fix="rota server")
        else:
            yield Finding("server", "none answers here; ROTA_URL says where another one is")
        return
    yield from _compare(found, settings)
    versions = {__version__, found.version, *(node.version for node in found.nodes)}
    if len(versions) > 1:
        text = f"the nodes and this command have different releases: {', '.join(sorted(versions))}"
        yield Finding("server", text, fix="pip install --upgrade rota")
    else:
        yield Finding("server", f"answers, nodes {len(found.nodes)}, release {found.version}")


def _compare(found: "Cluster", settings: "Settings") -> "Iterator[Finding]":
    """Whether the server and what else was looked at are of one cluster."""
    from rota.config.doctor import LOOK_AT_SETTINGS, Finding
    from rota.config.registry import scheme_of

    served = f"{found.store} and {found.coordinator}"
    meant = f"{scheme_of(settings.store.url)} and {scheme_of(settings.coordinator.url)}"
    if served != meant:
        text = f"the server is on {served}, and these settings name {meant}: give those of the server with --config"
        yield Finding("settings", text, fix=LOOK_AT_SETTINGS)


def _examine_token_way(url: str | None) -> "Iterator[Finding]":
    from urllib.parse import urlsplit

    from rota.config.doctor import Finding
    from rota.config.exposure import is_loopback

    named = url or os.environ.get("ROTA_URL", "")
    parts = urlsplit(named)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "localhost"):
        yield Finding(
            "ROTA_URL", "tokens would go over the network in clear text", fix=f"ROTA_URL=https://{parts.netloc}"
        )
