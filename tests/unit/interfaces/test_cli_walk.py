"""Every command there is: it has help, and says what it does in one line."""

from collections.abc import Iterator

import click
import pytest

from rota.interfaces.cli.main import cli, run


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


def test_the_commands_that_are_promised_are_there() -> None:
    promised = """
        server scheduler worker version top events stats cluster doctor completion
        task/submit task/ls task/get task/cancel task/retry task/logs task/watch task/explain
        config-type/apply config-type/ls config-type/get config-type/pause config-type/resume config-type/trigger
        config-type/rm worker/ls worker/get worker/drain worker/resume worker/capacity queue/ls
        token/create token/ls token/revoke db/upgrade db/status db/check settings/show settings/check
    """
    assert {tuple(path.split("/")) for path in promised.split()} <= set(COMMANDS)


@pytest.mark.parametrize(("typed", "meant"), [(["taks"], "task"), (["task", "submti"], "submit")])
def test_a_misspelt_command_is_told_with_the_nearest(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
