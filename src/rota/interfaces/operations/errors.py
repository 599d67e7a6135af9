"""From errors to what a client is told: a status, a stable code, and what to do. Nearest base class wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from msgspec import UNSET

from rota.domain.errors import (
    ConflictError,
    DeniedError,
    FencedError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    RotaError,
    UnauthenticatedError,
    UnavailableError,
)
from rota.wire.base import FieldError, Problem

TYPE_BASE = "/docs#"  # where each code is explained
RETRY_SOON = timedelta(seconds=1)
SEE_LOG = "This is a defect, or a state that nobody thought of; the log of the server has it."


class RequestError(RotaError):
    """A request that cannot even be read as one of ours."""

    status = 400


class HostError(RequestError):
    code = "host_not_allowed"


class NoRouteError(RequestError):
    code = "no_such_route"
    status = 404


class MethodError(RequestError):
    code = "method_not_allowed"
    status = 405

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"there is no {method[:20]} here; use {' or '.join(allowed)}")
        self.allowed = tuple(allowed)


class SlowRequestError(RequestError):
    code = "request_timeout"
    status = 408


class TooLargeError(RequestError):
    code = "body_too_large"
    status = 413


class AddressTooLongError(RequestError):
    code = "address_too_long"
    status = 414


class MediaTypeError(RequestError):
    code = "unsupported_media_type"
    status = 415


class HeadersTooLargeError(RequestError):
    code = "headers_too_large"
    status = 431


class BusyError(RequestError):
    code = "too_many_bodies"
    status = 503


class TooManyStreamsError(RequestError):
    code = "too_many_streams"
    status = 503


STATUS: Mapping[type[RotaError], int] = {
    InvalidError: 422,
    UnauthenticatedError: 401,
    DeniedError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    FencedError: 409,
    RateLimitedError: 429,
    UnavailableError: 503,
    RotaError: 500,
}


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means, for the reference."""

    status: int
    meaning: str


CODES: Mapping[str, Code] = {
    "host_not_allowed": Code(400, "The Host header names a server that this is not; see the setting `api.hosts`."),
    "unauthenticated": Code(401, "No token, or one that is unknown, expired or revoked."),
    "permission_denied": Code(403, "The role of the token does not cover this operation."),
    "no_such_route": Code(404, "There is no such path."),
    "task_not_found": Code(404, "No such task, or not in the tenant of the token."),
    "task_config_not_found": Code(404, "No config for this type, or not in the tenant of the token."),
    "task_config_revision_not_found": Code(404, "The type has no such revision."),
    "schedule_not_found": Code(404, "The config of this type has no schedule."),
    "calendar_not_found": Code(404, "No such calendar, or not in the tenant of the token."),
    "worker_not_found": Code(404, "No such worker."),
    "token_not_found": Code(404, "No such token, or not in the tenant of the token that asks."),
    "method_not_allowed": Code(405, "The path has no such method; the header Allow names those it has."),
    "request_timeout": Code(408, "The body did not arrive in time."),
    "conflict": Code(409, "The present state forbids it, or it changed too often meanwhile: look, then decide again."),
    "illegal_transition": Code(409, "The task is in a state from which this cannot be done."),
    "stale_attempt": Code(
        409, "The attempt does not run: it has ended, or the task is at another. Nothing was changed."
    ),
    "idempotency_mismatch": Code(409, "The idempotency key was used before, for a different request."),
    "revision_conflict": Code(409, "It was changed by somebody else in the meantime: read it again."),
    "calendar_in_use": Code(409, "Schedules name the calendar: change those first."),
    "body_too_large": Code(413, "The body has more bytes, or more values, than the operation allows."),
    "address_too_long": Code(414, "Path and query are longer than 8 KiB."),
    "unsupported_media_type": Code(415, "A body must be application/json."),
    "invalid_request": Code(422, "Something in the request is wrong; `errors` names each field."),
    "rate_limited": Code(429, "More requests than the setting `api.rate` allows; the header Retry-After says when."),
    "headers_too_large": Code(431, "The headers are larger than 16 KiB."),
    "internal": Code(500, SEE_LOG),
    "unavailable": Code(503, "Store or coordinator gave no answer. Whether a write took effect is unknown: repeat it."),
    "too_many_bodies": Code(503, "The bodies that are being read have more than 64 MiB together: send it again."),
    "too_many_streams": Code(503, "More streams are followed than the setting `api.max_streams` allows."),
}
EVERYWHERE = (
    "host_not_allowed",
    "unauthenticated",
    "permission_denied",
    "address_too_long",
    "invalid_request",
    "rate_limited",
    "headers_too_large",
    "internal",
    "unavailable",
)


def status_for(error: RotaError) -> int:
    """The status of an error."""
    if isinstance(error, RequestError):
        return error.status
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem_for(error: RotaError) -> Problem:
    """What a client is told of an error. Nothing of an unknown one: what it says is for the log."""
    status = status_for(error)
    is_ours = status == HTTPStatus.INTERNAL_SERVER_ERROR
    code = RotaError.code if is_ours else error.code
    return Problem(
        type=f"{TYPE_BASE}{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=SEE_LOG if is_ours else str(error),
        errors=_list_fields(error),
        task_id=str(error.task_id) if isinstance(error, ConflictError) and error.task_id is not None else UNSET,
        needed_role=error.needed if isinstance(error, DeniedError) else UNSET,
    )


def _list_fields(error: RotaError) -> list[FieldError]:
    if not isinstance(error, InvalidError):
        return []
    return [FieldError(field=one.field, problem=one.problem) for one in error.parts or (error,)]


def retry_after(error: RotaError) -> int | None:
    """Whole seconds after which a repeat may help; None when it does not."""
    if isinstance(error, RateLimitedError):
        return max(1, -(-error.retry_after // timedelta(seconds=1)))
    return RETRY_SOON.seconds if status_for(error) == HTTPStatus.SERVICE_UNAVAILABLE else None
