"""A task as people see it."""

from datetime import timedelta

from rota.domain.attempt import Failed, TaskResult
from rota.domain.conclusion import conclude
from rota.domain.ids import TaskId
from rota.domain.retry import STANDARD_RETRY
from rota.domain.task import PENDING, PROCESSING, RETRYING, SUCCESS
from rota.sdk.views import ErrorView, ResultView, view_of
from rota.testing.values import replace
from tests.support.builders import MINUTE, NOW, SECOND, a_running_state, a_task, an_error

LARGE = 2**62 + 1  # a number that JavaScript would round


def test_a_waiting_task_has_what_was_asked_for_and_nothing_of_a_run() -> None:
    view = view_of(a_task(LARGE, payload='{"to":["ada"]}', metadata={"who": "me"}, timeout=MINUTE, name="Mail"))
    assert (view.id, view.status, view.attempt) == (str(LARGE), PENDING, 0)
    assert (view.payload, view.metadata, view.timeout, view.name) == ({"to": ["ada"]}, {"who": "me"}, MINUTE, "Mail")
    assert view.max_retries == STANDARD_RETRY.max_retries
    assert (view.worker_id, view.started_at, view.completed_at) == (None, None, None)
    assert (view.result, view.error, view.rerun_of) == (None, None, None)


def test_a_running_task_names_its_worker_and_no_next_attempt() -> None:
    view = view_of(a_task(1, state=a_running_state(1, worker_id=LARGE)))
    assert (view.status, view.worker_id, view.started_at) == (PROCESSING, str(LARGE), NOW)
    assert view.next_attempt_at is None, "what is due next is its deadline"


def test_a_task_between_attempts_says_when_it_is_tried_again() -> None:
    policy = replace(STANDARD_RETRY, delay=timedelta(seconds=10))
    error = an_error("smtp", detail="Traceback")
    step = conclude(a_running_state(1), Failed(error), policy=policy, at=NOW, chance=0.5)
    view = view_of(replace(a_task(1, state=step.after), error=error))
    assert (view.status, view.retry_count) == (RETRYING, 1)
    assert view.next_attempt_at is not None
    assert NOW < view.next_attempt_at <= NOW + 20 * SECOND
    assert view.error == ErrorView(code="smtp", message=error.message, detail="Traceback", retryable=error.retryable)


def test_a_successful_task_shows_what_was_returned_as_python_values() -> None:
    state = a_running_state(1).succeeded(TaskResult(), at=NOW + SECOND).after
    done = a_task(1, state=state)
    view = view_of(replace(done, result=TaskResult(code=7, message="sent", data='{"n":[1]}')))
    assert (view.status, view.completed_at) == (SUCCESS, NOW + SECOND)
    assert view.result == ResultView(code=7, message="sent", data={"n": [1]})
    assert view_of(replace(done, result=TaskResult())).result == ResultView(code=0, message="", data=None)


def test_a_rerun_names_what_it_repeats() -> None:
    assert view_of(a_task(2, rerun_of=TaskId(LARGE))).rerun_of == str(LARGE)
