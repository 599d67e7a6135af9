"""Definitions as files: planned, applied, pruned; revisions compared and brought back."""

import io
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.interfaces.cli import config_files
from rota.interfaces.cli.main import run
from tests.unit.interfaces.fake_api import CONFIG, WORKER, FakeApi, page

Printed = pytest.CaptureFixture[str]
NIGHTLY = {**CONFIG, "type": "nightly", "schedule": {"cron": "0 3 * * *", "zone": "UTC"}, "source": "files"}


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path("types") / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def present(api: FakeApi, *configs: dict[str, Any]) -> None:
    api.on("GET /task-configs", page(*configs))


def test_a_plan_shows_what_would_change_and_changes_nothing(api: FakeApi, capsys: Printed) -> None:
    present(api, NIGHTLY, {**CONFIG, "type": "gone", "source": "files"}, {**CONFIG, "type": "by-hand"})
    write(nightly="type: nightly\nschedule: {cron: 0 4 * * *}\n", weekly="type: weekly\n", _="# nothing\n")
    Path("types/.hidden").mkdir()
    Path("types/.hidden/x.yaml").write_text("{", "utf-8")
    assert run(["config-type", "apply", "-f", "types", "--plan", "--prune"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "- gone",
        "~ nightly",
        '    schedule.cron: "0 3 * * *" -> "0 4 * * *"',
        "+ weekly",
        "planned: 1 is new, 1 changes, 1 is deleted",
    ]
    assert [request.method for request in api.sent] == ["GET"]


def test_a_folder_is_applied_and_nothing_is_deleted_unless_asked(api: FakeApi, capsys: Printed) -> None:
    present(api, NIGHTLY, {**CONFIG, "type": "gone", "source": "files"})
    api.on("PUT /task-configs/weekly", {**CONFIG, "type": "weekly", "revision": 1})
    write(nightly="type: nightly\nschedule: {cron: 0 3 * * *}\n", weekly="type: weekly\n")
    assert run(["config-type", "apply", "-f", "types"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "done: 1 is new, 1 stays"
    (sent,) = api.bodies()
    assert sent["source"] == "files"


def test_only_what_was_applied_from_the_same_files_is_pruned(api: FakeApi, capsys: Printed) -> None:
    others = ({**CONFIG, "type": "by-hand"}, {**CONFIG, "type": "theirs", "source": "team-b"})
    present(api, {**CONFIG, "type": "gone", "source": "team-a"}, *others)
    api.on("DELETE /task-configs/gone", httpx2.Response(204))
    api.on("PUT /task-configs/weekly", {**CONFIG, "type": "weekly", "revision": 1})
    write(weekly="type: weekly\n")
    assert run(["config-type", "apply", "-f", "types/weekly.yaml", "--source", "team-a", "--prune"]) == 0
    assert [(one.method, one.url.path.removeprefix("/api/v1")) for one in api.sent if one.method != "GET"] == [
        ("PUT", "/task-configs/weekly"),
        ("DELETE", "/task-configs/gone"),
    ]


def test_what_is_left_of_a_folder_without_definitions_is_pruned_if_that_is_meant(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    present(api, {**CONFIG, "type": "gone", "source": "files"}, {**CONFIG, "type": "by-hand"})
    api.on("DELETE /task-configs/gone", httpx2.Response(204))
    Path("types").mkdir()
    apply = ["config-type", "apply", "-f", "types", "--prune"]
    assert run([*apply, "--plan"]) == 0
    assert capsys.readouterr().out == "- gone\nplanned: 1 is deleted\n"
    assert run(apply) == 2
    told = capsys.readouterr().err
    assert "types defines nothing: delete every type whose source is files?" in told
    assert told.splitlines()[-1] == "try: rota config-type apply -f types --prune --yes"
    assert {one.method for one in api.sent} == {"GET"}
    assert run([*apply, "--yes"]) == 0
    assert capsys.readouterr().out == "- gone\ndone: 1 is deleted\n"


def test_a_single_file_prunes_nothing_without_a_name(api: FakeApi, capsys: Printed) -> None:
    write(weekly="type: weekly\n")
    assert run(["config-type", "apply", "-f", "types/weekly.yaml", "--prune"]) == 2
    assert "--source" in capsys.readouterr().err
    assert not api.sent


def test_a_plan_of_nothing_new_says_so(api: FakeApi, capsys: Printed) -> None:
    present(api, CONFIG)
    write(email="type: email\n")
    assert run(["config-type", "apply", "-f", "types/email.yaml", "--plan"]) == 0
    assert capsys.readouterr().out == "planned: 1 stays\n"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": "type: x\n", "b": "type: x\n"}, "'x' is defined twice, in types/a.yaml:1 and in types/b.yaml:1"),
        (
            {"a": "- type: x\n- type: x\n  priority: 5\n"},
            "'x' is defined twice, in types/a.yaml:1 and in types/a.yaml:2",
        ),
        ({"a": "# nothing\n"}, "types defines nothing; --prune deletes what was applied from it before"),
        ({"a": "type: x\nschedule: {cron: 0 0 30 2 *}\n"}, "types/a.yaml:2: x: schedule.cron: "),
        ({"a": "type: x\nschedule:\n  zone: UTC\n  cron: 0 0 30 2 *\n"}, "types/a.yaml:4: x: schedule.cron: "),
        ({"a": "type: y\n---\ntype: x\n\ntimeout_seconds: soon\n"}, "types/a.yaml:5: x: timeout_seconds: "),
        (
            {"a": "- type: y\n- type: x\n  schedule:\n    at:\n    - 2026-01-01\n"},
            "types/a.yaml:5: x: schedule.at[0]: ",
        ),
        ({"a": "- type: y\n- type: x\n  retries: 3\n"}, "types/a.yaml:3: x: retries"),
        ({"a": "- type: y\n- name: x\n"}, "types/a.yaml:2: the definition has no `type`"),
        ({"a": "type: y\n", "b": "\ntype: [x]\n"}, "types/b.yaml:2: the definition has no `type`"),
        ({"a": "type: y\n---\nhello\n"}, "types/a.yaml:3: the definition has no `type`"),
    ],
)
def test_a_folder_with_a_mistake_changes_nothing(
    api: FakeApi, capsys: Printed, files: dict[str, str], told: str
) -> None:
    present(api)
    write(**files)
    assert run(["config-type", "apply", "-f", "types"]) == 2
    assert told in capsys.readouterr().err
    assert not api.bodies()


def test_what_the_server_would_refuse_is_told_by_the_plan_and_keeps_all_from_being_changed(
    api: FakeApi, capsys: Printed
) -> None:
    present(api)
    write(aa1="type: aa1\n", bb1="type: bb1\nschedule: {cron: 0 0 * * *, only: [cn]}\n", cc1="type: cc1\n")
    for name in ("bb1", "cc1"):
        errors = [{"field": "schedule.only", "problem": f"there is no calendar of {name}"}]
        refused = {"type": "about:blank", "title": "x", "status": 422, "code": "invalid_request", "detail": "x"}
        api.on(f"POST /task-configs/{name}:check", httpx2.Response(422, json={**refused, "errors": errors}))
    for more in (["--plan"], []):
        assert run(["config-type", "apply", "-f", "types", *more]) == 2
        printed = capsys.readouterr()
        assert "types/bb1.yaml:2: bb1: schedule.only: there is no calendar of bb1\n" in printed.err
        assert "types/cc1.yaml:1: cc1: schedule.only: there is no calendar of cc1\n" in printed.err
    assert not api.bodies()
    assert {one.url.path.rpartition("/")[2] for one in api.checked} == {"aa1:check", "bb1:check", "cc1:check"}


WRONG = """\
type: aa1
timeout: 5
retry: {max_retries: soon, backoff: 2}
schedule: {cron: 0 0 30 2 *}
---
name: nobody's
---
type: bb1
executor: {type: http, urll: x}
payload: [1]
priority: 12
---
type: cc1
revision: 3
"""


@pytest.mark.parametrize("more", [[], ["--plan"]])
def test_all_mistakes_of_all_files_are_told_at_once(api: FakeApi, capsys: Printed, more: list[str]) -> None:
    def refuse(status: int, code: str, **more: Any) -> httpx2.Response:
        head = {"type": "about:blank", "title": "x", "status": status, "code": code, "detail": "x"}
        return httpx2.Response(status, json={**head, **more})

    def check(request: httpx2.Request) -> httpx2.Response:
        if "executor" not in json.loads(request.content):
            return httpx2.Response(200, json=CONFIG)
        return refuse(422, "invalid_request", errors=[{"field": "executor.url", "problem": "is missing"}])

    present(api, {**CONFIG, "type": "aa1"})
    api.on("POST /task-configs/bb1:check", check)
    api.on("POST /task-configs/cc1:check", refuse(409, "revision_conflict", detail="is at 4"))
    write(a=WRONG, b="type: [x")
    assert run(["config-type", "apply", "-f", "types", *more]) == 2
    told = capsys.readouterr().err.splitlines()
    assert sorted(re.sub(": (is|must|never) .*", "", line) for line in told) == [
        "error: --file: types/a.yaml:6: the definition has no `type`",
        "error: --file: types/b.yaml:1 is not YAML: expected ',' or ']', but got '<stream end>'",
        "error: types/a.yaml:11: bb1: priority",
        "error: types/a.yaml:14",
        "error: types/a.yaml:2: aa1: timeout",
        "error: types/a.yaml:3: aa1: retry.backoff",
        "error: types/a.yaml:3: aa1: retry.max_retries",
        "error: types/a.yaml:4: aa1: schedule.cron",
        "error: types/a.yaml:9: bb1: executor.url",
        "try: rota config-type apply --help",
    ]
    assert not api.bodies()


@pytest.mark.parametrize(("overlap", "fields"), [("queue_one", set()), ("moon", {"schedule.overlap"})])
def test_a_limit_that_is_wrong_makes_no_mistake_of_the_overlap(
    api: FakeApi, capsys: Printed, overlap: str, fields: set[str]
) -> None:
    def check(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content).get("max_concurrent") == 1:
            return httpx2.Response(200, json=CONFIG)
        errors = [{"field": "schedule.overlap", "problem": "queue_one needs max_concurrent 1"}]
        head = {"type": "about:blank", "title": "x", "status": 422, "code": "invalid_request", "detail": "x"}
        return httpx2.Response(422, json={**head, "errors": errors})

    present(api)
    api.on("POST /task-configs/aa1:check", check)
    write(aa1=f"type: aa1\nmax_concurrent: '1'\nschedule: {{cron: 0 0 * * *, overlap: {overlap}}}\n")
    assert run(["config-type", "apply", "-f", "types"]) == 2
    told = re.findall("^error: [^:]+:[0-9]+: aa1: ([a-z_.]+):", capsys.readouterr().err, re.M)
    assert set(told) == {"max_concurrent", *fields}


def test_a_stale_revision_beside_a_mistake_is_told_with_it(api: FakeApi, capsys: Printed) -> None:
    refused = {"type": "about:blank", "title": "x", "status": 409, "code": "revision_conflict", "detail": "is at 4"}
    api.on("POST /task-configs/aa1:check", httpx2.Response(409, json=refused))
    present(api)
    write(aa1="type: aa1\npriority: 12\nrevision: 3\n")
    assert run(["config-type", "apply", "-f", "types/aa1.yaml"]) == 2
    first, second, _ = capsys.readouterr().err.splitlines()
    assert first.startswith("error: types/aa1.yaml:2: aa1: priority: ")
    assert second == "error: types/aa1.yaml:3: aa1: revision: is at 4"


def test_a_revision_that_is_not_the_current_one_is_told_with_its_line(api: FakeApi, capsys: Printed) -> None:
    refused = {"type": "about:blank", "title": "x", "status": 409, "code": "revision_conflict", "detail": "is at 4"}
    api.on("PUT /task-configs/aa1", httpx2.Response(409, json=refused))
    present(api)
    write(aa1="type: aa1\npriority: 5\nrevision: 3\n")
    assert run(["config-type", "apply", "-f", "types/aa1.yaml"]) != 0
    assert "types/aa1.yaml:3: is at 4" in capsys.readouterr().err


def test_an_executor_that_no_worker_has_is_told(api: FakeApi, capsys: Printed) -> None:
    present(api)
    api.on("GET /workers", page(WORKER))
    write(aa1="type: aa1\nexecutor: {type: shell, command: ls}\n")
    assert run(["config-type", "apply", "-f", "types", "--plan"]) == 0
    assert "note: aa1: no worker that lives has the executor shell" in capsys.readouterr().err
    api.on("GET /workers", page({**WORKER, "types": ["@shell"]}))
    assert run(["config-type", "apply", "-f", "types", "--plan"]) == 0
    assert not capsys.readouterr().err


def test_a_folder_has_no_end_of_files(api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "MOST_FILES", 1)
    write(a="type: a\n", b="type: b\n")
    assert run(["config-type", "apply", "-f", "types"]) == 2
    assert "has 2 files, at most 1 are read" in capsys.readouterr().err


def test_revisions_are_listed_compared_and_brought_back(api: FakeApi, capsys: Printed) -> None:
    older = {**NIGHTLY, "revision": 1, "payload": {"a": 1}, "schedule": None}
    api.on("GET /task-configs/nightly/revisions", page({**NIGHTLY, "revision": 2}, older))
    assert run(["config-type", "revisions", "nightly"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run(["config-type", "diff", "nightly", "1", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert '    schedule.cron: null -> "0 3 * * *"' in told
    assert any(line.startswith("    payload: ") for line in told)
    assert run(["config-type", "diff", "nightly", "1", "9"]) == 3
    api.on("POST /task-configs/nightly:rollback", {**NIGHTLY, "revision": 3})
    assert run(["config-type", "rollback", "nightly", "1"]) == 0
    assert capsys.readouterr().out == "nightly is at revision 3, as it was at 1\n"
