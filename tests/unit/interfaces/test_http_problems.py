"""What a client is told of an error."""

from datetime import timedelta

import msgspec
import pytest

from rota.domain import errors
from rota.interfaces.http.problems import MEDIA_TYPE, problem_response
from rota.interfaces.operations.catalogue import OPERATIONS
from rota.interfaces.operations.errors import CODES, EVERYWHERE, MethodError, TooLargeError, TooManyStreamsError
from rota.wire.base import FieldError, Problem

SAMPLES = [
    (errors.InvalidError("name", "is empty"), 422, "invalid_request"),
    (errors.UnauthenticatedError(), 401, "unauthenticated"),
    (errors.DeniedError("admin", present="viewer"), 403, "permission_denied"),
    (errors.NotFoundError("task", 7), 404, "task_not_found"),
    (errors.NotFoundError("task config", "email"), 404, "task_config_not_found"),
    (errors.ConflictError("moved"), 409, "conflict"),
    (errors.IllegalTransitionError(7, present="SUCCESS", wanted="CANCELLED"), 409, "illegal_transition"),
    (errors.RateLimitedError(timedelta(seconds=0.2)), 429, "rate_limited"),
    (errors.StoreUnavailableError("away"), 503, "unavailable"),
    (errors.ConfigError("no"), 500, "internal"),
    (TooLargeError("more than 5 bytes"), 413, "body_too_large"),
    (TooManyStreamsError("50"), 503, "too_many_streams"),
]


@pytest.mark.parametrize(("error", "status", "code"), SAMPLES)
def test_every_error_has_its_status_and_its_stable_code(error: errors.RotaError, status: int, code: str) -> None:
    response = problem_response(error)
    problem = msgspec.json.decode(response.body, type=Problem)
    assert (response.status_code, problem.status, problem.code) == (status, status, code)
    assert response.headers["content-type"] == MEDIA_TYPE
    assert problem.type == f"/docs#{code}"
    assert CODES[code].status == status


def test_what_an_error_of_ours_says_is_for_the_log_alone() -> None:
    problem = msgspec.json.decode(problem_response(errors.RotaError("secret plan")).body, type=Problem)
    assert "secret" not in problem.detail


def test_each_field_that_is_wrong_is_named() -> None:
    parts = [errors.InvalidError("a", "is empty"), errors.InvalidError("b", "is odd")]
    problem = msgspec.json.decode(problem_response(errors.InvalidError.of(parts)).body, type=Problem)
    assert problem.errors == [FieldError(field="a", problem="is empty"), FieldError(field="b", problem="is odd")]


def test_what_is_in_the_way_is_a_field_and_only_where_something_is() -> None:
    used = msgspec.json.decode(problem_response(errors.IdempotencyMismatchError("a1", 711)).body)
    assert used["task_id"] == "711"
    denied = msgspec.json.decode(problem_response(errors.DeniedError("admin", present="viewer")).body)
    assert denied["needed_role"] == "admin"
    assert not {"task_id", "needed_role"} & set(msgspec.json.decode(problem_response(errors.ConflictError("no")).body))


def test_whoever_must_wait_is_told_for_how_long() -> None:
    assert problem_response(errors.RateLimitedError(timedelta(seconds=1.2))).headers["retry-after"] == "2"
    assert problem_response(errors.StoreUnavailableError("away")).headers["retry-after"] == "1"
    assert "retry-after" not in problem_response(errors.ConflictError("moved")).headers


def test_a_token_is_asked_for_and_the_methods_are_named() -> None:
    assert problem_response(errors.UnauthenticatedError()).headers["www-authenticate"].startswith("Bearer")
    assert problem_response(MethodError("BREW", ["GET", "PUT"])).headers["allow"] == "GET, PUT"


def test_every_code_that_an_operation_names_is_explained() -> None:
    named = {code for operation in OPERATIONS for code in operation.errors}
    assert named | set(EVERYWHERE) <= set(CODES)
