"""`rota doctor`: is everything as it should be, and if not, what to do."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.client.folder import read_token_file
from rota.interfaces.cli.connect import server_option
from rota.interfaces.cli.errors import FAILURE, OK
from rota.interfaces.cli.options import config_option, load_settings, read_changes, set_option, sources_of
from rota.interfaces.cli.text import safe
from rota.interfaces.cli.typed import SERVER, SETTINGS, Typed

if TYPE_CHECKING:
    from rota.config.finding import Finding


@click.command()
@config_option
@set_option
@click.option("--security", is_flag=True, help="Also look at who could listen, come in, or read along.")
@server_option
def doctor(config: Path | None, *, changes: tuple[str, ...], security: bool, url: str | None) -> int:
    """Say whether everything is as it should be, and what to do.

    It looks at what the settings of this folder name (store, schema, clock, nodes, coordinator, ports) and at the
    server that commands here ask: whether it is of the same installation and release. It fails when something is not
    sound.
    """
    from rota.config.doctor import examine, examine_files, examine_network, examine_tokens
    from rota.interfaces.cli.doctor_server import examine_ports, examine_server

    flags = read_changes(changes)
    loaded = load_settings(config, flags)
    seen = asyncio.run(examine(loaded))
    typed = _typed(config, changes, url=url)
    findings = [*seen.findings, *examine_ports(loaded.settings, seen.nodes)]
    if security:
        findings += examine_network(loaded.settings)
        findings += asyncio.run(examine_tokens(loaded.settings, own=read_token_file() or ""))
        findings += examine_files(loaded, sources_of(config, flags).find_file())
        findings += _examine_token_way(url)
    findings = [replace(finding, fix=typed.beside(finding.fix)) for finding in findings]
    is_told = any(not finding.is_seen for finding in seen.findings)
    findings += examine_server(typed, loaded.settings, nodes=seen.nodes, is_told=is_told)
    for finding in findings:
        click.echo(f"{'ok  ' if finding.is_sound else 'FAIL'}  {finding.subject}: {safe(finding.text)}")
        if not finding.is_sound:
            click.echo(f"      try: {safe(finding.fix)}")
    return OK if all(finding.is_sound for finding in findings) else FAILURE


def _typed(config: Path | None, changes: tuple[str, ...], *, url: str | None) -> Typed:
    """What was said, for what to try next."""
    words = ["doctor", *(word for change in changes for word in ("--set", change))]
    words += [] if config is None else ["--config", str(config)]
    words += [] if url is None else ["--url", url]
    return Typed("rota doctor", words=tuple(words), valued=frozenset((*SETTINGS, *SERVER)))


def _examine_token_way(url: str | None) -> "Iterator[Finding]":
    from urllib.parse import urlsplit

    from rota.config.exposure import is_loopback
    from rota.config.finding import Finding

    named = url or os.environ.get("ROTA_URL", "")
    parts = urlsplit(named)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "localhost"):
        yield Finding(
            "ROTA_URL", "tokens would go over the network in clear text", fix=f"ROTA_URL=https://{parts.netloc}"
        )
