from datetime import timedelta

import pytest

from rota.domain.errors import (
    ConfigError,
    ConflictError,
    CoordinatorUnavailableError,
    DeniedError,
    FencedError,
    IdempotencyMismatchError,
    IdTakenError,
    IllegalTransitionError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    RevisionConflictError,
    RotaError,
    StoreUnavailableError,
    UnauthenticatedError,
)

EVERY_KIND = [
    (InvalidError("limit", "must be positive"), "invalid_request", "limit: must be positive"),
    (NotFoundError("task", 7), "task_not_found", "task 7 does not exist"),
    (NotFoundError("task config", "email"), "task_config_not_found", "task config email does not exist"),
    (
        IllegalTransitionError(7, present="SUCCESS", wanted="CANCELLED"),
        "illegal_transition",
        "task 7 is SUCCESS and cannot become CANCELLED",
    ),
    (
        IllegalTransitionError(7, present="CANCELLED", wanted="CANCELLED"),
        "illegal_transition",
        "task 7 is CANCELLED already",
    ),
    (
        IllegalTransitionError(7, present="SUCCESS", wanted="amended", problem="does not wait"),
        "illegal_transition",
        "task 7 is SUCCESS and does not wait",
    ),
    (
        IdempotencyMismatchError("k", 7),
        "idempotency_mismatch",
        "idempotency key 'k' already made task 7 from a different request; use a new key",
    ),
    (
        RevisionConflictError("email", expected=2, current=3),
        "revision_conflict",
        "task config 'email' is at revision 3, not 2; read it again and retry",
    ),
    (IdTakenError(7), "id_taken", "id 7 belongs to another task; this node must lease a new id slot"),
    (
        UnauthenticatedError(),
        "unauthenticated",
        "a valid token is needed; send one as: Authorization: Bearer rota_…",
    ),
    (
        DeniedError("admin", present="viewer"),
        "permission_denied",
        "this needs the role admin, the token has viewer; use a token with the role admin",
    ),
    (FencedError("term", seen=4, current=5), "fenced", "term: 4 is stale, 5 is current"),
]


@pytest.mark.parametrize(("error", "code", "message"), EVERY_KIND)
def test_an_error_has_a_stable_code_and_says_what_happened(error: RotaError, code: str, message: str) -> None:
    assert (error.code, str(error), error.retryable) == (code, message, False)


@pytest.mark.parametrize("kind", [StoreUnavailableError, CoordinatorUnavailableError])
def test_only_an_unknown_outcome_is_worth_repeating(kind: type[RotaError]) -> None:
    assert (kind.code, kind.retryable) == ("unavailable", True)


def test_too_much_at_once_says_when_to_come_back() -> None:
    error = RateLimitedError(timedelta(seconds=1.5))

    assert (error.code, error.retryable, error.retry_after) == ("rate_limited", True, timedelta(seconds=1.5))
    assert str(error) == "too many requests; try again in 1.5 seconds"


def test_an_illegal_transition_is_a_conflict_that_names_its_task() -> None:
    error = IllegalTransitionError(7, present="SUCCESS", wanted="CANCELLED")

    assert isinstance(error, ConflictError)
    assert (error.task_id, error.present, error.wanted) == (7, "SUCCESS", "CANCELLED")


def test_a_config_error_ends_with_its_fix_and_has_it_for_itself() -> None:
    error = ConfigError("the driver is missing", fix="pip install it")

    assert str(error) == "the driver is missing; try: pip install it"
    assert (error.problem, error.fix) == ("the driver is missing", "pip install it")
    assert str(ConfigError("no fix is known")) == "no fix is known"
