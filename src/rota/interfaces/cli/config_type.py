"""`rota config-type`: what types of task there are."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.domain.errors import ConflictError, InvalidError
from rota.domain.task_config import LOCAL
from rota.domain.worker import ANY_TYPE, types_by
from rota.interfaces.cli.config_files import (
    DEFAULT_SOURCE,
    Definition,
    Step,
    about,
    list_mistakes,
    plan,
    read_definitions,
    with_source,
)
from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import confirm, output_option, show_list, show_one
from rota.interfaces.cli.tables import CONFIGS, REVISIONS
from rota.interfaces.cli.task_submit import read_payload
from rota.interfaces.cli.text import safe
from rota.wire.changes import Change

if TYPE_CHECKING:
    from rota.client.blocking import Client

OWN_EXECUTORS = (LOCAL, "http", "grpc")
SIGNS = {  # of one, and of several
    "+": ("is new", "are new"),
    "~": ("changes", "change"),
    "-": ("is deleted", "are deleted"),
    "=": ("stays", "stay"),
}

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
  source: team-a
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
@click.option("-f", "--file", required=True, metavar="FILE|FOLDER|-", help="YAML or JSON: definitions.")
@click.option("--plan", "is_plan", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Delete types that were applied from here before and are gone.")
@click.option(
    "--source", metavar="NAME", help="What this set of files is called, for --prune.  [default for a folder: files]"
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask where nothing is left and all is pruned.")
@server_option
def apply(file: str, *, is_plan: bool, prune: bool, url: str | None, **given: Any) -> None:
    """Create or change types as files say.

    Each definition has a `type` and the fields of the API.
    """
    definitions, problems = read_definitions(file)
    if problems and not definitions:
        raise _refusal(problems)
    source = given["source"]
    named = source if source is not None else DEFAULT_SOURCE if Path(file).is_dir() else ""
    if prune and not named:
        raise InvalidError("--prune", "needs --source, the name of the set of files that may be pruned")
    if not definitions:
        _check_empty(file, source=named, is_pruned=prune, is_meant=is_plan or given["yes"])
    with connect(url) as client:
        wanted = with_source(definitions, named) if named else definitions
        steps = plan(wanted, {one.type: one for one in client.configs.list()}, prune=named if prune else "")
        changed = [step.definition for step in steps if step.sign in "+~" and step.definition]
        _check_all(client, changed, problems=problems)
        for step in steps:
            _show(step)
        if not is_plan:
            _put_all(client, changed)
            for step in steps:
                if step.sign == "-":
                    client.configs.delete(step.type)
        counted = Counter(step.sign for step in steps)
        told = ", ".join(f"{counted[sign]} {SIGNS[sign][counted[sign] != 1]}" for sign in SIGNS if counted[sign])
        click.echo(f"{'planned' if is_plan else 'done'}: {told or 'nothing to do'}")


def _check_empty(file: str, *, source: str, is_pruned: bool, is_meant: bool) -> None:
    """Files that define nothing are a mistake, unless all that was applied from them is to go."""
    if not is_pruned:
        raise InvalidError("--file", f"{file} defines nothing; --prune deletes what was applied from it before")
    if not is_meant:
        confirm(f"{safe(file)} defines nothing: delete every type whose source is {safe(source)}?")


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@output_option
@server_option
def revisions(task_type: str, output: str, *, url: str | None) -> None:
    """List what a type was defined as, newest first."""
    with connect(url) as client:
        show_list(client.configs.revisions(task_type), REVISIONS, output=output)


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@click.argument("before", type=WholeNumber(1), metavar="OLD")
@click.argument("after", type=WholeNumber(1), metavar="NEW")
@server_option
def diff(task_type: str, before: int, *, after: int, url: str | None) -> None:
    """Show what revision NEW of a type says otherwise than OLD."""
    with connect(url) as client:
        for change in client.configs.diff(task_type, before, after=after):
            _show_change(change)


@config_type.command()
@click.argument("task_type", metavar="TYPE")
@click.argument("revision", type=WholeNumber(1))
@click.option("--expected", type=WholeNumber(0), metavar="N", help="Only if the type is at revision N; 0: deleted.")
@server_option
def rollback(task_type: str, revision: int, *, expected: int | None, url: str | None) -> None:
    """Define a type as it was in an earlier revision."""
    with connect(url) as client:
        stored = client.configs.roll_back(task_type, revision, expected_revision=expected)
    click.echo(f"{stored.type} is at revision {stored.revision}, as it was at {revision}")


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
    """Run a type now and print the id of the task.

    It gets the type's payload and priority, not those that its schedule has for its targets.
    """
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


def _check_all(client: "Client", definitions: Sequence[Definition], *, problems: Sequence[InvalidError]) -> None:
    """Let the server refuse what it would not store, before anything is changed; with all that the files had wrong."""
    mistakes = [*problems]
    conflicts: list[ConflictError] = []
    for definition in definitions:
        try:
            mistakes += list_mistakes(definition, lambda rest: client.configs.check(rest.type, rest))
        except ConflictError as error:
            conflicts.append(error)
    if mistakes or conflicts:
        raise _refusal(mistakes, conflicts)
    _note_executors(client, definitions)


def _refusal(mistakes: Sequence[InvalidError], conflicts: Sequence[ConflictError] = ()) -> InvalidError | ConflictError:
    """All of them in one, on a line each."""
    refused = InvalidError.of(mistakes) if mistakes else conflicts[0]
    refused.args = ("\n".join(map(str, [*mistakes, *conflicts])),)
    return refused


def _note_executors(client: "Client", definitions: Sequence[Definition]) -> None:
    """Say which executors no worker has: a package may bring them, or the name is a slip."""
    named = {one["type"]: (one.get("executor") or {}).get("type", LOCAL) for one in definitions}
    strange = {task_type: executor for task_type, executor in named.items() if executor not in OWN_EXECUTORS}
    known = {name for worker in client.workers.list() if worker.alive for name in worker.types} if strange else set()
    for task_type, executor in strange.items():
        if not known & {ANY_TYPE, types_by(executor)}:
            text = f"note: {task_type}: no worker that lives has the executor {executor}; its tasks will wait for one"
            click.echo(safe(text), err=True)


def _put_all(client: "Client", definitions: Sequence[Definition]) -> None:
    for definition in definitions:
        with about(definition):
            stored = client.configs.put(definition["type"], definition)
        click.echo(f"{stored.type} is at revision {stored.revision}")


def _show(step: Step) -> None:
    if step.sign != "=":
        click.echo(f"{step.sign} {safe(step.type)}")
    for change in step.changes:
        _show_change(change)


def _show_change(change: Change) -> None:
    before, after = (safe(json.dumps(value, ensure_ascii=False)) for value in (change.before, change.after))
    click.echo(f"    {safe(change.field)}: {before} -> {after}")
