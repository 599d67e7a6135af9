"""Every command there is: it has help, and says what it does in one line."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rota.interfaces.cli.main import cli, run
from rota.interfaces.operations.catalogue import OPERATIONS
from tests.unit.interfaces.fake_api import CONFIG, FakeApi, page, task_like


def walk(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*path, name))


COMMANDS = dict(walk())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {' '.join(('rota', *path))}")
    command = COMMANDS[path]
    assert command.help, "says what it does"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} is explained"


@pytest.mark.parametrize("path", [path for path in COMMANDS if isinstance(COMMANDS[path], click.Group)], ids=" ".join)
def test_every_line_of_a_list_of_commands_is_whole(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert listed
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_the_commands_that_are_promised_are_there() -> None:
    promised = """
        server api scheduler worker version top events stats cluster doctor completion bench
        task/submit task/ls task/get task/cancel task/retry task/logs task/watch task/explain
        config-type/apply config-type/ls config-type/get config-type/pause config-type/resume config-type/trigger
        config-type/rm config-type/revisions config-type/diff config-type/rollback
        import/crontab import/systemd import/celery-beat import/xxl-job
        schedule/ls schedule/preview schedule/next schedule/occurrences
        schedule/pause schedule/resume schedule/forecast schedule/backfill
        calendar/put calendar/ls calendar/get calendar/rm
        worker/ls worker/get worker/drain worker/resume worker/capacity queue/ls
        token/create token/ls token/revoke db/upgrade db/status db/check settings/show settings/check
    """
    assert {tuple(path.split("/")) for path in promised.split()} <= set(COMMANDS)


@pytest.mark.parametrize(("typed", "meant"), [(["taks"], "task"), (["task", "submti"], "submit")])
def test_a_misspelt_command_is_told_with_the_nearest(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


# One command line for each operation of the API; what the fake server answers does not matter here.
ASKING = """
    task submit email | task ls | task get 7 | task amend 7 --priority 5 | task cancel 7 | task retry 7
    task cancel --type email --yes | task retry --type email --yes | task logs 7 | task explain 7
    task reprioritise --to high --type email --yes
    config-type ls | config-type get email | config-type apply -f email.yaml | config-type pause email
    config-type resume email | config-type trigger email | config-type rm email --yes
    config-type revisions email | config-type rollback email 1
    schedule ls | schedule next email | schedule occurrences email | schedule preview @daily | schedule forecast
    schedule pause email | schedule resume email
    schedule backfill email --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z
    calendar ls | calendar get cn | calendar put cn --country CN | calendar rm cn --yes
    worker ls | worker get 9 | worker drain 9 | worker resume 9 | worker capacity 9 4
    queue ls | queue types | stats | report | cluster | cluster --elections | settings server | events
    token create ci | token ls | token revoke 5 | audit ls
"""
BESIDE_THE_COMMANDS = {
    "create_tasks": "rota.Client.submit_many; a shell submits one by one",
    **{f"{verb}_attempt": "a service has the link" for verb in ("complete", "fail", "heartbeat", "progress")},
}


def test_every_operation_of_the_api_is_reached_by_a_command(api: FakeApi) -> None:
    Path("email.yaml").write_text("type: email", "utf-8")
    api.on("GET /tasks", page(task_like()))
    api.on("GET /task-configs", page())
    api.on("GET /task-configs/email", CONFIG)
    for line in ASKING.replace("\n", "|").split("|"):
        if line.strip():
            run(line.split())
    asked = {(request.method, request.url.path.removeprefix("/api/v1")) for request in (*api.sent, *api.checked)}
    missing = [
        operation.name
        for operation in OPERATIONS
        if not any(method == operation.method and _fits(operation.path, path) for method, path in asked)
    ]
    assert missing == list(BESIDE_THE_COMMANDS)


def _fits(template: str, path: str) -> bool:
    pattern = "[^/:]+".join(re.escape(part) for part in re.split(r"\{\w+\}", template))
    return re.fullmatch(pattern, path) is not None
