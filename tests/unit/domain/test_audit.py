"""What is recorded of a batch is what it did, and can be found again."""

from datetime import timedelta
from typing import Any

import pytest

from rota.domain.audit import AuditFilter, check_subjects, entries_about, page_of
from rota.domain.errors import InvalidError
from rota.domain.ids import MAX_ID, TaskId, first_id_at
from tests.support.builders import NOW, an_audit_entry

TASKS = [TaskId(1), TaskId(2), TaskId(3)]
ENTRIES = [an_audit_entry(number) for number in TASKS]


def test_entries_about_tasks_of_the_batch_are_fine() -> None:
    check_subjects(ENTRIES[:2], TASKS)
    check_subjects([], [])


def test_an_entry_about_another_task_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"task\.cancel of '3' is about no task of this batch"):
        check_subjects(ENTRIES, TASKS[:2])


def test_of_a_batch_the_entries_about_some_tasks_are_found() -> None:
    assert entries_about(ENTRIES, {TaskId(3), TaskId(1)}) == [ENTRIES[0], ENTRIES[2]]
    assert entries_about(ENTRIES, frozenset()) == []


def test_an_empty_filter_is_met_by_every_entry() -> None:
    assert AuditFilter().texts == {}
    assert AuditFilter().ids == range(MAX_ID + 1)
    assert all(map(AuditFilter().fits, ENTRIES))


def test_every_text_of_a_filter_must_be_met_whole() -> None:
    entry = an_audit_entry(7, actor="ada", action="task.cancel")
    assert AuditFilter(actor="ada", action="task.cancel", object="7").fits(entry)
    for other in (AuditFilter(actor="ad"), AuditFilter(action="task"), AuditFilter(actor="ada", object="70")):
        assert not other.fits(entry), other


def test_moments_and_the_cursor_are_ranges_of_ids() -> None:
    hour = timedelta(hours=1)
    begin, end = first_id_at(NOW), first_id_at(NOW + hour)
    assert AuditFilter(after=NOW, before=NOW + hour).ids == range(begin, end)
    assert AuditFilter(after=NOW, before=NOW + hour, below=begin + 5).ids == range(begin, begin + 5)
    assert AuditFilter(before=NOW + hour, below=end + 5).ids == range(end)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("limit", 0),
        ("limit", 1001),
        ("actor", "x" * 201),
        ("action", "x" * 64),
        ("object", "\x00"),
        ("after", NOW.replace(tzinfo=None)),
        ("before", NOW.replace(tzinfo=None)),
    ],
)
def test_a_filter_that_no_entry_could_meet_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidError, match=rf"^{field}: "):
        AuditFilter(**{field: wrong})


def test_a_page_goes_on_where_it_is_full_or_where_not_all_was_looked_at() -> None:
    assert page_of(ENTRIES, 5).next_below is None
    assert page_of(ENTRIES, 2).items == tuple(ENTRIES[:2])
    assert page_of(ENTRIES, 2).next_below == 2
    assert page_of(ENTRIES, 5, looked_down_to=1).next_below == 1
