import pytest

from rota.domain.attempt import TaskError, TaskResult


@pytest.mark.parametrize("result", [TaskResult(code=200), TaskResult(message="sent"), TaskResult(data="null")])
def test_a_result_that_tells_something_is_not_plain(result: TaskResult) -> None:
    assert TaskResult().is_plain
    assert not result.is_plain


def test_an_error_may_be_tried_again_unless_it_says_otherwise() -> None:
    assert TaskError("boom").retryable
