import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from rota.domain.queue import QueueEntry, Taken


@pytest.mark.parametrize("priority", [-1, 10])
def test_an_entry_has_a_priority_that_somebody_will_serve(priority: int) -> None:
    with pytest.raises(InvalidError, match="priority"):
        QueueEntry(TaskId(1), priority)


def test_a_take_that_brought_nothing_counts_only_if_it_was_woken() -> None:
    assert Taken((TaskId(1),), {})
    assert Taken((), {}, is_woken=True)
    assert not Taken((), {5: TaskId(1)})
