"""From the server's problem documents back to the errors they were made of: nearest status wins, the code is kept."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec

from rota.client.call import Reply
from rota.domain.errors import (
    ConflictError,
    DeniedError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    RotaError,
    UnauthenticatedError,
    UnavailableError,
)
from rota.wire.base import Problem

LONGEST_RETRY_AFTER = timedelta(hours=1)  # a server that asks for more is not waited for anyway
IN_PYTHON = "in Python, set ROTA_TOKEN or give it: rota.Client(url, token)"
LONGEST_ID = 19  # digits


def error_from(reply: Reply) -> RotaError:
    """The error that the answer tells of, with the server's code and words."""
    problem = _problem_of(reply)
    error = _MAKERS.get(reply.status, _other)(problem, reply)
    error.code = problem.code
    return error


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """How long the server asks to wait; None when it does not say (or says a date: nobody's clock is compared)."""
    text = headers.get("retry-after", "").strip()
    if not text.isascii() or not text.isdigit():
        return None
    return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY_AFTER)


def _problem_of(reply: Reply) -> Problem:
    try:
        return msgspec.json.decode(reply.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        detail = f"the server answered {reply.status} without saying why; is this a Rota server?"
        code = _CODES.get(reply.status, "internal")
        return Problem(type="about:blank", title="", status=reply.status, code=code, detail=detail)


def _invalid(problem: Problem, _reply: Reply) -> RotaError:
    if not problem.errors:
        return _told(InvalidError("request", problem.detail), problem)
    error = InvalidError.of([InvalidError(wrong.field, wrong.problem) for wrong in problem.errors])
    error.args = ("\n".join(map(str, error.parts)),)
    return error


def _not_found(problem: Problem, _reply: Reply) -> RotaError:
    kind = problem.code.removesuffix("_not_found").replace("_", " ")
    return _told(NotFoundError(kind, ""), problem)


def _conflict(problem: Problem, _reply: Reply) -> RotaError:
    error = ConflictError(problem.detail)
    if problem.task_id and problem.task_id.isascii() and problem.task_id.isdigit():
        error.task_id = int(problem.task_id[:LONGEST_ID])
    return error


def _denied(problem: Problem, _reply: Reply) -> RotaError:
    return _told(DeniedError(problem.needed_role or "", present=""), problem)


def _rate_limited(problem: Problem, reply: Reply) -> RotaError:
    wait = retry_after(reply.headers) or timedelta(0)
    return _told(RateLimitedError(wait), problem)


def _other(problem: Problem, reply: Reply) -> RotaError:
    if 400 <= reply.status < 500:
        return _invalid(problem, reply)
    return _told(RotaError(problem.detail), problem)


def _told(error: RotaError, problem: Problem) -> RotaError:
    error.args = (problem.detail,)
    return error


_CODES: Mapping[int, str] = {  # of an answer that has none, such as a proxy's
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    429: "rate_limited",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_Maker = Callable[[Problem, Reply], RotaError]
_MAKERS: Mapping[int, _Maker] = {
    401: lambda problem, _reply: UnauthenticatedError(f"{problem.detail}; {IN_PYTHON}"),
    403: _denied,
    404: _not_found,
    409: _conflict,
    412: _conflict,
    429: _rate_limited,
    502: lambda problem, _reply: UnavailableError(problem.detail),
    503: lambda problem, _reply: UnavailableError(problem.detail),
    504: lambda problem, _reply: UnavailableError(problem.detail),
}
