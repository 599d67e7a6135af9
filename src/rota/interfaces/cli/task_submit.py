"""`rota task submit`."""

from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rota.domain.checks import MAX_PAYLOAD_BYTES
from rota.domain.durations import parse_duration
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.spelling import find_near
from rota.domain.strict_json import read_strictly
from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.errors import FAILURE, OK, CheckFailedError
from rota.interfaces.cli.filters import read_pairs, read_time
from rota.interfaces.cli.input import read_text
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import output_option, restate, show_one, spinner
from rota.interfaces.cli.tables import TASKS
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.client.blocking import Client, Handle
    from rota.domain.retry import RetryPolicy
    from rota.sdk.views import TaskView

PATIENCE = timedelta(seconds=3)  # then whoever waits wants to know why
LOOK_EVERY = timedelta(seconds=2)  # how far it got
MOST_TYPES = 1000  # among which one that is like a wrong one is looked for

OPTIONS = (
    click.option("-p", "--payload", metavar="JSON|@FILE|-", help="What it works on; - reads standard input."),
    click.option("--name", help="What people call it."),
    click.option("--priority", metavar="0..9|normal|high|urgent", help="How urgent it is."),
    click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A fact to find it by; may be repeated."),
    click.option("--delay", metavar="DURATION", help="Start it after this time, such as 5m."),
    click.option("--at", metavar="TIME", help="Start it at this time, such as 2026-01-31T09:00:00Z."),
    click.option("--timeout", metavar="DURATION", help="How long an attempt may take."),
    click.option("--retries", type=WholeNumber(0, 1000), help="How often it is tried again."),
    click.option(
        "--retry-on", multiple=True, metavar="KIND", help="Only such failures: 503, 5xx, UNAVAILABLE, ValueError, …"
    ),
    click.option("--give-up-on", multiple=True, metavar="KIND", help="Not such failures; may be repeated."),
    click.option("--total-timeout", metavar="DURATION", help="How long all attempts may take together."),
    click.option(
        "--key",
        "--idempotency-key",
        "key",
        metavar="TEXT",
        help="An idempotency key: the same again adds no second task.",
    ),
)


def submit_options(command: Any) -> Any:
    """What a task can be given."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("task_type", metavar="TYPE")
@submit_options
@click.option("--wait", is_flag=True, help="Wait for its end; fails unless it succeeds.")
@click.option("--wait-timeout", metavar="DURATION", default="1h", help="How long to wait.  [default: 1h]")
@output_option
@server_option
def submit(task_type: str, *, wait: bool, wait_timeout: str, output: str, url: str | None, **given: Any) -> int:
    """Submit a task and print its id."""
    payload, options = read_payload(given["payload"]), _options(given)
    most = parse_duration("--wait-timeout", wait_timeout)
    with connect(url) as client:
        try:
            handle = client.submit(task_type, payload, **options)
        except InvalidError as error:
            raise (_find_unknown(client, task_type, error=error) or error) from error
        if not wait:
            if output in ("table", "name"):
                click.echo(handle.id)
            else:
                show_one(handle.get(), TASKS, output=output)
            return OK
        click.echo(f"task {handle.id} is submitted", err=True)  # to find it by, should the waiting be interrupted
        try:
            ended = _wait(client, handle, most=most)
        except TimeoutError:
            problem = f"task {handle.id} has not ended within {wait_timeout}"
            raise CheckFailedError(problem, fix=f"rota task explain {handle.id}") from None
        show_one(ended, TASKS, output=output)
    return OK if ended.status == "SUCCESS" else FAILURE


def _wait(client: "Client", handle: "Handle", *, most: timedelta) -> "TaskView":
    """The task when it has ended. Where it gets nowhere at first, whoever waits is told why."""
    text = f"waiting for task {handle.id}"
    first = min(most, PATIENCE)
    try:
        with spinner(text):
            return handle.wait(first)
    except TimeoutError:
        if first == most:
            raise
    found = client.tasks.explain(handle.id)
    if found.status == "PENDING":
        click.echo(f"{found.status}: {safe(found.sentence)}", err=True)
    with spinner(text) as sign:
        left = most - first
        while sign is not None and left > LOOK_EVERY:  # somebody looks: let them see how far it got
            with suppress(TimeoutError):
                return handle.wait(LOOK_EVERY)
            left -= LOOK_EVERY
            restate(sign, text + _progress_of(handle.get()))
        return handle.wait(left)


def _progress_of(task: "TaskView") -> str:
    progress = task.progress
    return "" if progress is None else f": {progress.fraction:.0%} {progress.message}".rstrip()


def _find_unknown(client: "Client", task_type: str, *, error: InvalidError) -> ConfigError | None:
    """What to say instead where the type is what is wrong, and is nobody's."""
    if error.field != "type":
        return None
    known = [config.type for config in islice(client.configs.list(), MOST_TYPES)]
    if task_type in known:
        return None
    near = find_near(task_type, known)
    hint = f"did you mean {near!r}?" if near else "start a worker that has it, or create it"
    return ConfigError(f"type: there is no task config for {task_type!r}; {hint}", fix="rota config-type ls")


def read_payload(text: str | None) -> Any:
    """JSON from the command line, a file or standard input; None when nothing was given."""
    if text is None:
        return None
    if text != "-" and not text.startswith("@"):
        return _parse(text)
    return _parse(read_text("--payload", text.removeprefix("@"), most=MAX_PAYLOAD_BYTES * 4))


def read_priority(text: str | None) -> int | str | None:
    """A level by number or name; whether there is such a level the server says."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def _options(given: dict[str, Any]) -> dict[str, Any]:
    found = {
        "name": given["name"],
        "priority": read_priority(given["priority"]),
        "metadata": read_pairs("--metadata", given["metadata"]) or None,
        "delay": given["delay"],
        "scheduled_at": read_time("--at", given["at"]),
        "timeout": given["timeout"],
        "retry": _retry(given),
        "idempotency_key": given["key"],
    }
    return {key: value for key, value in found.items() if value is not None}


def _retry(given: dict[str, Any]) -> "RetryPolicy | None":
    """The policy, if anything of it was given; the rest of it is then the standard one's, not the config's."""
    from rota.domain.retry import RetryPolicy

    total = given["total_timeout"]
    said = {
        "max_retries": given["retries"],
        "retry_on": given["retry_on"] or None,
        "give_up_on": given["give_up_on"] or None,
        "total_timeout": None if total is None else parse_duration("--total-timeout", total),
    }
    found = {key: value for key, value in said.items() if value is not None}
    return RetryPolicy(**found) if found else None


def _parse(text: str) -> Any:
    try:
        return read_strictly(text, whole="--payload", within="payload")
    except InvalidError as exc:
        if exc.field != "--payload":
            raise
        raise InvalidError("--payload", f'{exc.problem}; write it like \'{{"to": "ada"}}\'') from exc
