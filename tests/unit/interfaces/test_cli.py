"""The command line: what it prints, where, and with which exit code."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
import yaml

from rota.__about__ import __version__
from rota.domain.errors import (
    ConfigError,
    ConflictError,
    FencedError,
    InvalidError,
    NotFoundError,
    RotaError,
    StoreUnavailableError,
)
from rota.interfaces.cli.errors import exit_code_for, report
from rota.interfaces.cli.main import cli, run


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"rota {__version__}\n"


def test_without_a_command_it_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "settings" in capsys.readouterr().out
    assert run(["--help"]) == 0


@pytest.mark.parametrize(
    ("arguments", "attempt"),
    [
        (["nonsense"], "try: rota --help"),
        (["settings", "show", "--nonsense"], "try: rota settings show --help"),
        (["settings", "show", "-o", "xml"], "try: rota settings show --help"),
        (["worker", "--app"], "try: rota worker --help"),
        (["dev", "absent.py"], "try: rota dev --help"),
        (["dev", "no_such_module_anywhere"], "try: rota dev --help"),
    ],
)
def test_a_bad_command_line_ends_with_what_to_try(
    arguments: list[str], attempt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.splitlines()[-1] == attempt
    assert arguments[0] != "dev" or "--app" not in printed.err


def test_a_check_that_fails_does_not_name_itself_as_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rota.yaml").write_text("worker: [", "utf-8")
    assert run(["settings", "check"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota settings check --help"
    assert run(["settings", "show"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota settings check"


def test_settings_are_shown_as_lines_with_their_origin(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rota.yaml").write_text("worker:\n  capacity: 20\n", "utf-8")

    assert run(["settings", "show", "--origin"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["worker.capacity", "20", "rota.yaml:2"] in shown
    assert ["worker.types", '["*"]', "default"] in shown
    assert run(["settings", "show"]) == 0
    assert "default" not in capsys.readouterr().out


def test_shown_yaml_can_be_used_as_a_settings_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "show", "-o", "yaml"]) == 0
    first = capsys.readouterr().out
    Path("rota.yaml").write_text(first, "utf-8")

    assert run(["settings", "show", "-o", "yaml"]) == 0
    assert capsys.readouterr().out == first
    assert yaml.safe_load(first)["worker"]["lease"] == "12s"


def test_shown_json_has_values_or_values_with_origins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "show", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["worker"]["capacity"] == 10

    assert run(["settings", "show", "-o", "json", "--origin"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["worker.capacity"] == {"value": 10, "origin": "default", "is_set": False}


def test_a_check_says_how_many_are_set(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.yaml").write_text("worker: {capacity: 20, weight: 1}", "utf-8")

    assert run(["settings", "check", "--config", "other.yaml"]) == 0
    assert capsys.readouterr().out.startswith("settings are sound: 2 set, ")


def test_the_schema_is_behind_then_upgraded_then_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "check"]) == 1
    assert capsys.readouterr().err.endswith("try: rota db upgrade\n")
    assert run(["db", "status"]) == 0
    assert capsys.readouterr().out.startswith("schema is at nothing, ")
    assert run(["db", "upgrade"]) == 0
    assert run(["db", "check"]) == 0
    assert run(["db", "status"]) == 0


def test_on_the_schema_of_a_later_release_there_is_nothing_to_upgrade(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "upgrade"]) == 0
    newest = capsys.readouterr().out.split()[-1]
    with closing(sqlite3.connect(".rota/rota.db")) as connection, connection:
        connection.execute("UPDATE rota_schema_version SET version_num = '9999'")
    told = f"schema is at 9999, later than this release, which has {newest} and runs on it"
    for word, end in (("upgrade", ": there is nothing to do"), ("check", ""), ("status", "")):
        assert run(["db", word]) == 0
        assert capsys.readouterr().out == f"{told}{end}\n"


def test_a_store_without_a_schema_is_said_to_have_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE__URL", "memory://")

    assert run(["db", "status"]) == 2
    assert "a memory:// store has no schema" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["memory://", "redis://127.0.0.1:1/0", "etcd://127.0.0.1:1"])
def test_whatever_upgrades_before_each_release_need_not_know_the_store(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE__URL", url)

    assert run(["db", "upgrade"]) == 0
    assert "no schema" in capsys.readouterr().out


def test_a_store_that_there_is_not_is_not_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE__URL", "etdc://127.0.0.1:1")

    assert run(["db", "upgrade"]) == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RotaError("x"), 1),
        (InvalidError("field", "bad"), 2),
        (ConfigError("x"), 2),
        (NotFoundError("task", 7), 3),
        (ConflictError("x"), 4),
        (FencedError("term", seen=1, current=2), 4),
        (StoreUnavailableError("x"), 5),
    ],
)
def test_every_error_has_its_exit_code_and_ends_with_what_to_try(
    error: RotaError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == exit_code_for(error) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith("try: ")


@pytest.mark.parametrize("role", ["server", "api", "scheduler", "worker"])
def test_a_setting_without_a_value_is_told_with_how_it_is_written(
    role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([role, "--set", "worker.capacity"]) == 2
    said = ["error: --set worker.capacity: has no value", f"try: rota {role} --set worker.capacity=VALUE"]
    assert capsys.readouterr().err.splitlines() == said


def test_an_unknown_setting_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["worker", "--set", "worker.capcity=5"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "error: unknown setting worker.capcity in the flags; did you mean worker.capacity?"
    assert told[-1].startswith("try: ")


def test_a_worker_has_at_least_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["worker", "--processes", "0"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota worker --help"


def test_interrupting_a_command_is_a_failure_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.commands, "version", click.Command("version", callback=interrupt))

    assert run(["version"]) == 1
    assert capsys.readouterr().err.strip() == "interrupted"
