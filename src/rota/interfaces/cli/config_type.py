"""`rota config-type`: what types of task there are."""

from typing import Any

import click

from rota.domain.errors import InvalidError
from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.output import confirm, output_option, show_list, show_one
from rota.interfaces.cli.tables import CONFIGS
from rota.interfaces.cli.task_submit import read_payload, read_text
from rota.interfaces.cli.text import safe

MOST_BYTES = 4 * 1024**2
TOLD_ONLY = ("tenant", "next_fire_at", "created_at", "updated_at")  # in what `get` shows, which can be applied again

FIELDS = """\
\b
A definition, of which only the type is needed:
  type: nightly_report
  name: The report of the day
  description: Sent to the board
  executor: {type: http, url: "https://reports.example.com/run"}
  timeout_seconds: 60
  retry: {max_retries: 5, strategy: EXPONENTIAL, delay_seconds: 10}
  priority: 0
  max_concurrent: 2
  rate_per_second: 10
  payload: {format: pdf}
  schedule: {cron: "0 9 * * *", zone: Europe/Berlin}
  enabled: true
  revision: 3

\b
executor has the keys of its type (local, http, grpc); {type: local} by default.
retry also has backoff_rate, max_delay_seconds, jitter, retry_on, give_up_on
and total_timeout_seconds. revision, if given, is the one that is replaced.
"""


@click.group()
def config_type() -> None:
    """Define types of task, pause them, run them now."""


@config_type.command(epilog=FIELDS)
@click.option("-f", "--file", required=True, metavar="FILE|-", help="YAML or JSON: one definition, or several.")
@server_option
def apply(file: str, *, url: str | None) -> None:
    """Create or change types as a file says; each has a `type` and the fields of the API."""
    definitions = _read_definitions(file)
    with connect(url) as client:
        for definition in definitions:
            wanted = {key: value for key, value in definition.items() if key not in TOLD_ONLY}
            stored = client.configs.put(definition["type"], wanted)
            click.echo(f"{stored.type} is at revision {stored.revision}")


@config_type.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List the types."""
    with connect(url) as client:
        repeat(lambda: show_list(client.configs.list(), CONFIGS, output=output), watch=watch)


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@output_option
@server_option
def get(task_type: str, output: str, *, url: str | None) -> None:
    """Show the definition of a type."""
    with connect(url) as client:
        show_one(client.configs.get(task_type), CONFIGS, output=output)


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@server_option
def pause(task_type: str, *, url: str | None) -> None:
    """Accept no new tasks of a type."""
    with connect(url) as client:
        click.echo(f"{client.configs.pause(task_type).type} is paused")


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@server_option
def resume(task_type: str, *, url: str | None) -> None:
    """Accept tasks of a type again."""
    with connect(url) as client:
        click.echo(f"{client.configs.resume(task_type).type} is enabled")


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@click.option("-p", "--payload", metavar="JSON|@FILE|-", help="Instead of the type's own.")
@server_option
def trigger(task_type: str, *, payload: str | None, url: str | None) -> None:
    """Run a type now and print the id of the task."""
    content = read_payload(payload)
    with connect(url) as client:
        click.echo(client.configs.trigger(task_type, content).id)


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
def rm(task_type: str, *, yes: bool, url: str | None) -> None:
    """Delete a type; its tasks stay."""
    if not yes:
        confirm(f"delete the type {safe(task_type)}?")
    with connect(url) as client:
        client.configs.delete(task_type)
    click.echo(f"{safe(task_type)} is deleted")


def _read_definitions(file: str) -> list[dict[str, Any]]:
    import yaml

    try:
        text = read_text(file, most=MOST_BYTES)
        documents = [part for part in yaml.safe_load_all(text) if part is not None]
    except yaml.MarkedYAMLError as exc:
        line = f":{exc.problem_mark.line + 1}" if exc.problem_mark is not None else ""
        raise InvalidError("--file", f"{file}{line} is not YAML: {exc.problem or exc.context}") from exc
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as exc:
        raise InvalidError("--file", f"{file} cannot be read: {exc}") from exc
    found = [definition for part in documents for definition in (part if isinstance(part, list) else [part])]
    for place, definition in enumerate(found, 1):
        if not isinstance(definition, dict) or not isinstance(definition.get("type"), str):
            raise InvalidError("--file", f"definition {place} in {file} has no `type`")
    if not found:
        raise InvalidError("--file", f"{file} defines nothing")
    return found
