from rota.domain.events import KIND_OF_STATUS
from rota.domain.task import ALLOWED


def test_every_state_that_a_task_can_enter_is_announced() -> None:
    assert frozenset().union(*ALLOWED.values()) == set(KIND_OF_STATUS)
