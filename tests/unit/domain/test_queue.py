import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from rota.domain.queue import QueueEntry


@pytest.mark.parametrize("priority", [-1, 10])
def test_an_entry_has_a_priority_that_somebody_will_serve(priority: int) -> None:
    with pytest.raises(InvalidError, match="priority"):
        QueueEntry(TaskId(1), priority)
