from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.checks import MAX_DETAIL, MAX_LINE
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.log import (
    LINE_BITS,
    LogEntry,
    Progress,
    check_lines,
    entry_for,
    first_entry,
    place,
    progress_detail,
    progress_of,
    rerun_entry,
)
from rota.domain.task import PENDING, PROCESSING, RETRYING, LogKind
from rota.testing.values import replace
from tests.support.builders import MINUTE, NOW, a_running_state, a_state, a_task, an_error
from tests.support.properties import BROAD_PROPERTY

versions = st.integers(1, 2**31 - 1)
lines = st.integers(0, 2**LINE_BITS - 1)


@BROAD_PROPERTY
@given(versions, lines, versions, lines)
def test_places_are_ordered_by_transition_then_line_and_fit_63_bits(
    version: int, line: int, other_version: int, other_line: int
) -> None:
    here, there = place(version, line), place(other_version, other_line)

    assert (here < there) == ((version, line) < (other_version, other_line))
    assert 0 < here < 2**63


def test_a_place_has_the_version_in_the_upper_32_bits_and_the_line_in_the_lower() -> None:
    assert place(3, 7) == 3 * 2**32 + 7  # stores keep it: it may not change


@pytest.mark.parametrize("line", [-1, 2**LINE_BITS])
def test_a_line_that_would_take_the_place_of_another_transition_is_refused(line: int) -> None:
    with pytest.raises(InvalidError, match=r"^line: "):
        place(1, line)


def test_the_record_begins_with_the_creation() -> None:
    entry = first_entry(a_task(7, tenant_id=TenantId("acme")))

    assert (entry.task_id, entry.tenant_id, entry.seq) == (7, "acme", place(1))
    assert (entry.at, entry.from_status, entry.to_status) == (NOW, None, PENDING)


def test_a_grant_is_recorded_with_its_attempt_and_worker() -> None:
    step = a_state(7, attempt=2, version=5).granted(WorkerId(9), term=1, at=NOW, timeout=MINUTE)

    entry = entry_for(step)

    assert (entry.from_status, entry.to_status, entry.seq) == (PENDING, PROCESSING, place(6))
    assert (entry.attempt, entry.worker_id, entry.kind) == (3, 9, LogKind.STATE_CHANGE)


def test_a_failure_is_recorded_with_its_detail_and_the_worker_where_it_happened() -> None:
    step = a_running_state(7, worker_id=9).retried(an_error(detail="traceback"), at=NOW, due_at=NOW + MINUTE)

    entry = entry_for(step)

    assert (entry.to_status, entry.kind, entry.worker_id) == (RETRYING, LogKind.RETRY, 9)
    assert (entry.message, entry.detail) == ("it did not work", "traceback")


def test_a_line_that_no_store_can_hold_is_made_fit_so_that_its_batch_gets_through() -> None:
    line = a_line(message="nul \x00", detail="half a pair \ud800")

    assert (line.message, line.detail) == ("nul �", "half a pair �")


def test_an_endless_line_is_cut_to_what_the_smallest_column_holds() -> None:
    line = a_line(message="🌍" * MAX_LINE * 2, detail="d" * MAX_DETAIL * 2)

    assert (len(line.message), line.message[-1]) == (MAX_LINE, "…")
    assert len(line.message.encode()) < 2**16, "the TEXT of MySQL"
    assert (len(line.detail), line.detail[-1]) == (MAX_DETAIL, "…")


def test_other_lines_are_kept_as_they_are() -> None:
    line = a_line(message=" 你好\n", detail="d" * MAX_DETAIL)

    assert (line.message, line.detail) == (" 你好\n", "d" * MAX_DETAIL)


def test_only_lines_may_be_appended() -> None:
    line = a_line(message="", detail="")
    check_lines([line])

    with pytest.raises(InvalidError, match="seq"):
        check_lines([line, replace(line, seq=place(9))])


def a_line(*, message: str, detail: str) -> LogEntry:
    return LogEntry(task_id=TaskId(1), seq=place(2, 1), kind=LogKind.INFO, at=NOW, message=message, detail=detail)


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (progress_detail(0.5), Progress(0.5, "half way")),
        ('{"progress": 7}', Progress(1.0, "half way")),
        ('{"progress": NaN}', Progress(0.0, "half way")),
        ('{"progress": "much"}', None),
        ('{"progress": 0.5', None),
        ('{"city": "Oslo"}', None),
        ("", None),
    ],
)
def test_a_line_says_how_far_the_attempt_got_or_it_does_not(detail: str, said: Progress | None) -> None:
    entry = LogEntry(task_id=TaskId(1), seq=1, kind=LogKind.INFO, at=NOW, message="half way", detail=detail)
    assert progress_of(entry) == said


def test_reruns_have_places_of_their_own_for_three_years_after_the_end() -> None:
    ended = a_task(state=a_state().cancelled("", at=NOW).after, created_at=NOW - timedelta(days=1000))
    days = [timedelta(0), timedelta(seconds=0.1), timedelta(days=130), timedelta(days=200), timedelta(days=3 * 365)]
    places = [rerun_entry(ended, a_task(2, created_at=NOW + later)).seq for later in days]

    assert places == sorted(set(places))
    assert {seq >> LINE_BITS for seq in places} == {ended.state.version}
