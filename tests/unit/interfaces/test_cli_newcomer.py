"""What a newcomer meets: lists with nothing in them, and mistakes that say what to do."""

from pathlib import Path

import pytest

from rota.interfaces.cli.errors import FAILURE, NOT_FOUND, USAGE
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CONFIG, STATS, FakeApi, page

Printed = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "route", "told"),
    [
        ("task ls", "/tasks", "no such tasks; to add one: rota task submit TYPE"),
        ("config-type ls", "/task-configs", "no types yet; "),
        ("worker ls", "/workers", "no worker lives; "),
        ("calendar ls", "/calendars", "no calendars yet; "),
        ("schedule occurrences email", "/task-configs/email/occurrences", "nothing has fired or been skipped yet; "),
    ],
)
def test_an_empty_list_says_what_to_type_beside_its_table(
    api: FakeApi, capsys: Printed, words: str, route: str, told: str
) -> None:
    api.on("GET /task-configs/email", CONFIG)
    api.on(f"GET {route}", page())
    assert run(words.split()) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1, "its head, for scripts"
    assert printed.err.startswith(told)
    assert run([*words.split(), "-o", "json"]) == 0
    assert capsys.readouterr() == ("[]\n", "")


def test_a_count_of_nothing_says_so(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /stats", {**STATS, "tasks": {}})
    assert run(["stats"]) == 0
    assert capsys.readouterr().out.startswith("no tasks yet\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("task amend 7", "Give --priority or --at"),
        ("calendar put cn", "Give --file, --country or --ics"),
        ("calendar put cn --ics absent.ics", "--ics: absent.ics cannot be read: No such file or directory"),
        ("calendar put cn -f absent.yaml", "--file: absent.yaml cannot be read: No such file or directory"),
        ("config-type apply -f absent.yaml", "--file: absent.yaml cannot be read: No such file or directory"),
        ("config-type apply -f broken.yaml", "--file: broken.yaml is not YAML: "),
        ("task submit email -p @absent.json", "--payload: absent.json cannot be read: No such file or directory"),
        ("task submit email -p @bytes", "--payload: bytes is not UTF-8 text"),
        ("import crontab absent", "FILE: absent cannot be read: No such file or directory"),
        ("task ls --status bogus", "'bogus' is not one of 'BLOCKED', 'PENDING', 'PROCESSING'"),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_a_mistake_is_told_with_the_option_and_sends_nothing(
    api: FakeApi, capsys: Printed, words: str, told: str
) -> None:
    Path("bytes").write_bytes(b"\xff")
    Path("broken.yaml").write_text("type: email\nat: 2026-99-99", "utf-8")
    assert run(words.split()) == USAGE
    first, last = capsys.readouterr().err.splitlines()
    assert told in first
    assert last.startswith("try: rota ")
    assert not api.sent


def test_a_file_that_is_too_long_is_refused_rather_than_read_in_part(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.interfaces.cli.config_files.MOST_BYTES", 20)
    Path("types.yaml").write_text("type: email\n---\ntype: report\n", "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml"]) == USAGE
    assert "--file: types.yaml has more than 20 characters" in capsys.readouterr().err
    assert not api.sent


@pytest.mark.parametrize("more", [[], ["--plan"]])
def test_a_mistake_in_a_file_names_the_type(api: FakeApi, capsys: Printed, more: list[str]) -> None:
    api.on("GET /task-configs", page())
    Path("types.yaml").write_text("type: email\ntimeout: 5\n", "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml", *more]) == USAGE
    assert capsys.readouterr().err.startswith("error: types.yaml:2: email: timeout: is not known; ")


@pytest.mark.parametrize(
    ("words", "answer", "attempt"),
    [
        ("calendar get cn", ("GET /calendars/cn", "calendar_not_found"), "rota calendar ls"),
        (
            "schedule pause email",
            ("POST /task-configs/email/schedule:pause", "schedule_not_found"),
            "rota schedule ls",
        ),
        (
            "config-type rollback email 9",
            ("POST /task-configs/email:rollback", "task_config_revision_not_found"),
            "rota config-type revisions email",
        ),
    ],
)
def test_what_is_not_there_leads_to_what_is(
    api: FakeApi, capsys: Printed, words: str, answer: tuple[str, str], attempt: str
) -> None:
    route, code = answer
    api.on(route, problem(404, code))
    assert run(words.split()) == NOT_FOUND
    assert capsys.readouterr().err.splitlines()[-1] == f"try: {attempt}"


def test_an_import_of_which_nothing_came_fails(api: FakeApi, capsys: Printed) -> None:
    Path("beat.py").write_text("[", "utf-8")
    assert run(["import", "celery-beat", "beat.py"]) == FAILURE
    assert capsys.readouterr().err.splitlines()[-1] == "0 definitions, 1 note"


def test_nobody_is_asked_where_nobody_can_answer(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: (_ for _ in ()).throw(EOFError))
    assert run(["calendar", "rm", "cn"]) == USAGE
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota calendar rm cn --yes"
    assert not api.sent
