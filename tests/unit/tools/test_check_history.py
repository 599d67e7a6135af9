"""The checker is checked: a good history passes, and one made bad for each promise is found out by that promise."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.check_history.history import History
from tools.check_history.judge import PROMISES, Verdict, judge
from tools.check_history.reading import FIELDS, find_wrong_field, load
from tools.check_history.report import describe, describe_need
from tools.check_history.verdict import Promise, rule

Lines = list[dict[str, Any]]
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "history.md"
AT = "2030-06-01T12:00:0{}+00:00"


def entry(version: int, before: str | None, *, after: str, **more: Any) -> dict[str, Any]:
    plain = {"attempt": 0, "worker": "", "at": AT.format(version), "message": "", "order": version, "written_at": 30.0}
    plain |= {"deferred": False}
    return {"op": "entry", "task": "1", "version": version, "before": before, "after": after} | plain | more


def step(version: int, before: str, *, after: str, **more: Any) -> dict[str, Any]:
    return {"op": "step", "type": "ok", "task": "1", "version": version, "before": before, "after": after} | more


def a_good_history() -> Lines:
    """One task: its first attempt is lost with its worker, the second succeeds."""
    row = {"key": "k", "kind": "email", "status": "SUCCESS", "attempt": 2, "retry_count": 0, "max_retries": 3}
    grant = {"worker": "7", "term": 1, "asked_at": 1.0, "trusted_until": 5.0}
    call = {"op": "call", "task": "1", "attempt": 2, "worker": "8", "nonce": "n2", "mono": 30.0}
    return [
        {"op": "limit", "kind": "email", "most": 1},
        {"op": "submit", "type": "invoke", "key": "k"},
        {"op": "submit", "type": "ok", "key": "k", "task": "1"},
        {"op": "term", "number": 1, "mono": 0.0},
        {"op": "term", "number": 2, "mono": 10.0},
        step(2, "PENDING", after="PROCESSING", attempt=1, **grant),
        step(4, "PENDING", after="PROCESSING", attempt=2, **grant | {"term": 2, "worker": "8"}),
        call | {"type": "invoke", "attempt": 1, "worker": "7", "nonce": "n1"},
        call | {"type": "invoke"},
        call | {"type": "ok"},
        {"op": "task", "task": "1", "due_at": AT.format(0), "nonce": "n2"} | row,
        entry(1, None, after="PENDING"),
        entry(2, "PENDING", after="PROCESSING", attempt=1, worker="7"),
        entry(3, "PROCESSING", after="PENDING", attempt=1, worker="7", message="worker_lost"),
        entry(4, "PENDING", after="PROCESSING", attempt=2, worker="8"),
        entry(5, "PROCESSING", after="SUCCESS", attempt=2, worker="8"),
        {"op": "quiet", "ready": 0, "delayed": 0, "in_flight": 0},
    ]


def find(lines: Lines, op: str, **fields: Any) -> dict[str, Any]:
    return next(line for line in lines if line["op"] == op and fields.items() <= line.items())


def a_row_is_gone(lines: Lines) -> None:
    lines.remove(find(lines, "task"))


def nobody_asked(lines: Lines) -> None:
    find(lines, "task")["key"] = "another"


def a_key_made_two_tasks(lines: Lines) -> None:
    lines.append(find(lines, "task") | {"task": "2", "attempt": 0, "status": "CANCELLED"})


def it_was_granted_too_early(lines: Lines) -> None:
    find(lines, "task")["due_at"] = AT.format(9)


def an_attempt_is_missing(lines: Lines) -> None:
    find(lines, "entry", version=4)["attempt"] = 3


def it_was_granted_while_it_ran(lines: Lines) -> None:
    find(lines, "entry", version=3).update(before="PENDING", after="PENDING")


def a_stale_result_counted(lines: Lines) -> None:
    find(lines, "entry", version=5)["attempt"] = 1


def a_confirmed_write_is_gone(lines: Lines) -> None:
    lines.append(step(6, "SUCCESS", after="FAILED"))


def it_went_on_after_its_end(lines: Lines) -> None:
    lines.append(entry(6, "SUCCESS", after="PENDING"))


def a_step_is_unlawful(lines: Lines) -> None:
    find(lines, "entry", version=3)["after"] = "BLOCKED"


def a_version_is_missing(lines: Lines) -> None:
    lines.remove(find(lines, "entry", version=1))


def a_retry_was_not_counted(lines: Lines) -> None:
    find(lines, "entry", version=3).update(after="RETRYING", message="")


def too_many_ran_at_once(lines: Lines) -> None:
    find(lines, "limit")["most"] = 0


def too_many_ran_right_after_the_leader_before_had_granted_its_last(lines: Lines) -> None:
    too_many_ran_at_once(lines)
    find(lines, "entry", version=2)["written_at"] = 20.0
    find(lines, "term", number=2)["mono"] = 25.0


def it_ended_though_it_was_cancelled(lines: Lines) -> None:
    lines.append({"op": "cancel", "type": "ok", "task": "1"})


def a_term_began_twice(lines: Lines) -> None:
    find(lines, "term", number=2)["number"] = 1


def an_older_leader_granted_later(lines: Lines) -> None:
    find(lines, "step", version=4)["term"] = 0


def a_leader_acted_too_late(lines: Lines) -> None:
    find(lines, "step", version=4)["asked_at"] = 5.1


def it_ran_where_it_was_not_granted(lines: Lines) -> None:
    find(lines, "call", attempt=1)["worker"] = "9"


def an_attempt_ran_twice(lines: Lines) -> None:
    lines.append(find(lines, "call", attempt=2, type="invoke"))


def the_result_is_of_another_call(lines: Lines) -> None:
    find(lines, "task")["nonce"] = "n1"


def something_is_left_over(lines: Lines) -> None:
    find(lines, "quiet")["in_flight"] = 1


def it_never_ended(lines: Lines) -> None:
    lines.remove(find(lines, "entry", version=5))
    find(lines, "task")["status"] = "PROCESSING"


def it_ran_hot(lines: Lines) -> None:
    find(lines, "task")["attempt"] = 100


def it_was_lost_though_deferred(lines: Lines) -> None:
    find(lines, "entry", version=2)["deferred"] = True


def a_callback_ended_nothing(lines: Lines) -> None:
    lines.append({"op": "callback", "type": "ok", "task": "1", "attempt": 3, "nonce": "n2"})


def a_callback_brought_another_result(lines: Lines) -> None:
    lines.append({"op": "callback", "type": "ok", "task": "1", "attempt": 2, "nonce": "n1"})


def _heal(lines: Lines, **who: list[str]) -> None:
    """The second worker runs in pod `b`; from the beginning on it is known who is well."""
    lines.append({"op": "healed", "mono": 0.0, "well": [], "lost": []} | who)
    lines.append({"op": "worker", "worker": "8", "pod": "b", "since": 0.0})


def a_well_worker_was_given_up(lines: Lines) -> None:
    lines.append({"op": "worker", "worker": "7", "pod": "a", "since": 0.0})


def it_waited_though_there_was_room(lines: Lines) -> None:
    _heal(lines)
    lines.remove(find(lines, "limit"))
    find(lines, "entry", version=1)["written_at"] = -10.0
    find(lines, "entry", version=2)["written_at"] = 50.0


def it_was_granted_and_not_begun(lines: Lines) -> None:
    _heal(lines, well=["b"])
    find(lines, "call", attempt=2)["mono"] = 60.0
    find(lines, "entry", version=5)["written_at"] = 60.0


def it_was_granted_to_one_that_was_no_more(lines: Lines) -> None:
    it_was_granted_and_not_begun(lines)
    find(lines, "worker")["until"] = 1.0
    find(lines, "healed")["well"] = []


def it_was_given_to_one_out_of_reach(lines: Lines) -> None:
    _heal(lines, lost=["b"])


BAD: dict[Callable[[Lines], None], str] = {
    a_row_is_gone: "I1",
    nobody_asked: "I2",
    a_key_made_two_tasks: "I3",
    it_was_granted_too_early: "I6",
    an_attempt_is_missing: "I7",
    it_was_granted_while_it_ran: "I8",
    a_stale_result_counted: "I9",
    a_confirmed_write_is_gone: "I9",
    it_went_on_after_its_end: "I10",
    a_step_is_unlawful: "I11",
    a_version_is_missing: "I11",
    a_term_began_twice: "I12",
    an_older_leader_granted_later: "I12",
    a_leader_acted_too_late: "I13",
    a_retry_was_not_counted: "I14",
    too_many_ran_at_once: "I15",
    too_many_ran_right_after_the_leader_before_had_granted_its_last: "I15",
    it_ended_though_it_was_cancelled: "I16",
    it_ran_where_it_was_not_granted: "I18",
    an_attempt_ran_twice: "I19",
    the_result_is_of_another_call: "I20",
    something_is_left_over: "I22",
    it_was_lost_though_deferred: "I27",
    a_callback_ended_nothing: "I28",
    a_callback_brought_another_result: "I28",
    a_well_worker_was_given_up: "I29",
    it_never_ended: "L1",
    it_waited_though_there_was_room: "L2",
    it_was_granted_and_not_begun: "L4",
    it_was_granted_to_one_that_was_no_more: "L4",
    it_was_given_to_one_out_of_reach: "L5",
    it_ran_hot: "L6",
}


def test_a_good_history_breaks_no_promise() -> None:
    assert judge(History(a_good_history())).violations == ()


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_a_bad_history_is_found_out(spoil: Callable[[Lines], None]) -> None:
    lines = a_good_history()
    spoil(lines)
    assert BAD[spoil] in {violation.invariant for violation in judge(History(lines)).violations}


def test_two_leaders_at_once_may_exceed_a_limit_for_a_while() -> None:
    lines = a_good_history()
    too_many_ran_at_once(lines)
    find(lines, "term", number=2)["mono"] = 25.0
    lines.append(step(2, "PENDING", after="PROCESSING", type="stale", attempt=1, term=2, asked_at=1, trusted_until=5))
    assert judge(History(lines)).violations == ()


def test_a_grant_to_a_worker_whose_process_was_started_anew_need_not_begin() -> None:
    lines = a_good_history()
    it_was_granted_and_not_begun(lines)
    lines.append({"op": "worker", "worker": "9", "pod": "b", "since": 50.0})
    assert "L4" not in {violation.invariant for violation in judge(History(lines)).violations}


def test_where_calls_go_on_failing_a_grant_may_begin_later() -> None:
    lines = a_good_history()
    it_was_granted_and_not_begun(lines)
    granted_at = find(lines, "entry", version=4)["written_at"]
    find(lines, "call", attempt=2)["mono"] = find(lines, "entry", version=5)["written_at"] = granted_at + 15.0
    assert "L4" in {violation.invariant for violation in judge(History(lines)).violations}
    find(lines, "healed")["bad"] = True
    assert "L4" not in {violation.invariant for violation in judge(History(lines)).violations}


def a_task_is_forgotten(lines: Lines) -> None:
    """Asked for, granted, run and done while nothing was copied."""
    more = {"task": "2", "mono": 42.0}
    grant = {"attempt": 1, "worker": "8", "term": 2, "asked_at": 1.0, "trusted_until": 5.0}
    lines.append({"op": "submit", "type": "invoke", "key": "k2"} | more)
    lines.append({"op": "submit", "type": "ok", "key": "k2"} | more)
    lines.append(step(2, "PENDING", after="PROCESSING", **grant) | more)
    lines.append({"op": "call", "type": "invoke", "attempt": 1, "nonce": "n3"} | more)
    lines.append(step(3, "PROCESSING", after="SUCCESS", attempt=1) | more)
    lines.append({"op": "callback", "type": "ok", "attempt": 1, "nonce": "n3"} | more)


def an_end_is_forgotten(lines: Lines) -> None:
    """The attempt ended while nothing was copied, and began again elsewhere."""
    lines.append(find(lines, "call", attempt=2, type="invoke") | {"mono": 50.0})
    lines.append(step(5, "PROCESSING", after="FAILED", attempt=2) | {"mono": 42.0})


def a_cancellation_is_forgotten(lines: Lines) -> None:
    lines.append({"op": "cancel", "type": "ok", "task": "1", "mono": 42.0})


FORGOTTEN: dict[Callable[[Lines], None], set[str]] = {
    a_task_is_forgotten: {"I1", "I9", "I18", "I28"},
    an_end_is_forgotten: {"I9", "I19"},
    a_cancellation_is_forgotten: {"I16"},
}


@pytest.mark.parametrize("forget", FORGOTTEN, ids=lambda forget: forget.__name__)
def test_a_failover_may_lose_what_was_answered_while_nothing_was_copied_and_no_more(
    forget: Callable[[Lines], None],
) -> None:
    def judge_with(since: float) -> set[str]:
        lines = a_good_history()
        for line in lines:
            line.setdefault("mono", 0.0)
        forget(lines)
        lines.append({"op": "lost_writes", "since": since, "until": 45.0})
        return {violation.invariant for violation in judge(History(lines)).violations}

    assert judge_with(41.0) == set()
    assert judge_with(43.0) == FORGOTTEN[forget]


def test_every_promise_has_a_bad_history() -> None:
    assert {promise.name for promise in PROMISES} == set(BAD.values())


def every_kind_of_line() -> Lines:
    lines = a_good_history()
    _heal(lines)
    a_callback_ended_nothing(lines)
    it_ended_though_it_was_cancelled(lines)
    it_was_lost_though_deferred(lines)
    lines += [
        {"op": "fault", "type": "begin", "name": "bad_network", "mono": 1.0},
        {"op": "lost_writes", "since": 1.0, "until": 2.0},
        {"op": "harm", "pod": "a", "mono": 1.0},
        {"op": "lost", "pod": "a", "mono": 1.0},
    ]
    return lines


def without(lines: Lines, need: str) -> Lines:
    """Take away what a promise needs: some lines, or a field of them."""
    op, _, name = need.partition(".")
    op, _, kind = op.partition(":")
    if name:
        return [{key: line[key] for key in line if (line["op"], key) != (op, name)} for line in lines]
    return [line for line in lines if line["op"] != op or (kind and line["type"] != kind)]


NEEDS = [(promise, need) for promise in PROMISES for need in promise.needs]


@pytest.mark.parametrize(("promise", "need"), NEEDS, ids=[f"{promise.name}-{need}" for promise, need in NEEDS])
def test_what_a_history_has_no_lines_about_is_not_judged(promise: Promise, need: str) -> None:
    ruling = rule(promise, History(without(every_kind_of_line(), need)))
    assert (ruling.word, ruling.lacking) == ("not judged", (need,))


def test_what_a_history_has_lines_about_is_judged() -> None:
    assert {ruling.word for ruling in judge(History(every_kind_of_line())).rulings} == {"kept", "BROKEN"}


def test_the_reference_says_what_each_promise_is_judged_by() -> None:
    rows = re.findall(r"^\| ([IL]\d+) \| (.+) \| (.+) \|$", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(one.name, one.text, ", ".join(map(describe_need, one.needs))) for one in PROMISES]


def check(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.check_history", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 our own program


def write(folder: Path, lines: Lines, *, tail: str = "") -> None:
    (folder / "run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + tail)


def test_the_program_tells_valid_from_broken_from_too_thin(tmp_path: Path) -> None:
    write(tmp_path, a_good_history(), tail='{"op": "ste')  # cut off by a kill
    calm = check(tmp_path, "--calm")
    assert (calm.returncode, "verdict: every promise that was judged is kept" in calm.stdout) == (0, True)
    assert " I16  not judged  a cancelled task stays cancelled (no line `cancel` of type `ok`)" in calm.stdout
    thin = check(tmp_path)
    assert (thin.returncode, "stale write refused" in thin.stdout) == (2, True)
    bad = a_good_history()
    an_attempt_ran_twice(bad)
    write(tmp_path, bad)
    broken = check(tmp_path)
    assert (broken.returncode, "I19: attempt 2 of task 1 ran 2 times" in broken.stdout) == (1, True)


def test_a_folder_without_a_history_is_no_proof(tmp_path: Path) -> None:
    answer = check(tmp_path, "--calm")
    assert (answer.returncode, "no task in it" in answer.stderr) == (2, True)


def test_the_program_ends_with_a_code_of_its_own_where_the_history_is_not_whole(tmp_path: Path) -> None:
    bad = a_good_history()
    an_attempt_ran_twice(bad)
    write(tmp_path, [{"op": "step", "type": "ok"}, *bad])
    answer = check(tmp_path)
    assert answer.returncode == 3
    assert "run.jsonl:1: the field `task` of this `step` is missing" in answer.stdout
    assert "verdict: unknown" in answer.stdout
    assert "3  unknown" in check(tmp_path, "--help").stdout


def test_of_very_many_flaws_the_first_are_told(tmp_path: Path) -> None:
    write(tmp_path, [{"op": "step"}] * 30)
    told = "\n".join(describe(judge(load(tmp_path))))
    assert "run.jsonl:20:" in told
    assert "run.jsonl:21:" not in told
    assert "and 10 more lines" in told


def numbered(*numbers: int) -> Lines:
    return [{"op": "term", "process": "a", "seq": seq, "number": seq, "mono": 0.0} for seq in numbers]


def list_flaws(folder: Path) -> list[str]:
    judgement = judge(load(folder))
    assert judgement.verdict(is_calm=True) == (Verdict.UNKNOWN if judgement.flaws else Verdict.TOO_THIN)
    return [f"{flaw.where.rpartition('/')[2]}: {flaw.what}" for flaw in judgement.flaws]


@pytest.mark.parametrize("tail", ["", '{"op": "ste', "\n"])
def test_a_last_line_may_be_cut_off(tail: str, tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 2), tail=tail)
    assert list_flaws(tmp_path) == []


@pytest.mark.parametrize("text", ['{"op": "ste', "[1]", '"op"'])
def test_a_line_that_cannot_be_read_is_reported_wherever_else_it_stands(text: str, tmp_path: Path) -> None:
    write(tmp_path, numbered(1), tail=f"{text}\n{json.dumps(numbered(2)[0])}\n")
    assert list_flaws(tmp_path) == [f"run.jsonl:2: no JSON object: {text}"]


def test_a_whole_last_line_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    write(tmp_path, numbered(1), tail="{\n")
    assert list_flaws(tmp_path) == ["run.jsonl:2: no JSON object: {"]


def test_a_gap_in_the_numbers_of_a_process_is_reported_with_the_lines_around_it(tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 2, 5))
    assert list_flaws(tmp_path) == ["run.jsonl:3: `seq` 2 of a is followed by 5: lines are missing"]
    assert [line["seq"] for line in judge(load(tmp_path)).flaws[0].witness] == [2, 5]


def test_lines_that_are_missing_at_the_beginning_or_there_twice_are_reported(tmp_path: Path) -> None:
    write(tmp_path, numbered(3, 4, 4))
    assert list_flaws(tmp_path) == [
        "run.jsonl:1: a begins with `seq` 3: what it wrote before is missing",
        "run.jsonl:3: `seq` 4 of a is there twice",
    ]


def test_the_lines_of_a_process_may_be_in_several_files(tmp_path: Path) -> None:
    write(tmp_path, numbered(3, 4))
    (tmp_path / "run.1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in numbered(1, 2)))
    assert list_flaws(tmp_path) == []


def test_whatever_field_a_line_lacks_is_told_and_not_stumbled_over(tmp_path: Path) -> None:
    whole = every_kind_of_line()
    assert {line["op"] for line in whole} == FIELDS.keys()
    for place, line in enumerate(whole):
        assert find_wrong_field(line) is None, line
        for name in line.keys() - {"op"}:
            write(tmp_path, [*whole[:place], {key: line[key] for key in line if key != name}, *whole[place + 1 :]])
            flaws = judge(load(tmp_path)).flaws
            is_needed = name in FIELDS[line["op"]]
            assert [flaw.what for flaw in flaws if f"`{name}`" in flaw.what] or not is_needed, (name, line)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"op": "stop"}, "`op` is 'stop', which is nothing that is judged"),
        ({"version": "2"}, 'the field `version` of this `entry` cannot be "2"'),
        ({"at": "yesterday"}, 'the field `at` of this `entry` cannot be "yesterday"'),
        ({"at": "2030-06-01T12:00:00"}, 'the field `at` of this `entry` cannot be "2030-06-01T12:00:00"'),
        ({"mono": "1"}, 'the field `mono` of this `entry` cannot be "1"'),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_told(change: dict[str, Any], what: str) -> None:
    assert find_wrong_field(entry(1, None, after="PENDING") | change) == what
