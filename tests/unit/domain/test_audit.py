"""What is recorded of a batch is what it did."""

import pytest

from rota.domain.audit import check_subjects, entries_about
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from tests.support.builders import an_audit_entry

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
