"""Problem documents (RFC 9457), and what an error adds to the headers."""

import msgspec
from starlette.responses import Response

from rota.domain.errors import RotaError, UnauthenticatedError
from rota.interfaces.operations.errors import (
    BusyError,
    MethodError,
    SlowRequestError,
    TooLargeError,
    problem_for,
    retry_after,
)

MEDIA_TYPE = "application/problem+json"


def problem_response(error: RotaError) -> Response:
    """What a client is told of an error."""
    problem = problem_for(error)
    headers = {}
    if (wait := retry_after(error)) is not None:
        headers["Retry-After"] = str(wait)
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = 'Bearer realm="rota"'
    if isinstance(error, TooLargeError | SlowRequestError | BusyError):
        headers["Connection"] = "close"  # the rest of the body is not waited for
    if isinstance(error, MethodError):
        headers["Allow"] = ", ".join(error.allowed)
    return Response(msgspec.json.encode(problem), problem.status, headers, media_type=MEDIA_TYPE)
