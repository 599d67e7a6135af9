"""From errors to the status of a call: the same codes as over HTTP, in trailing metadata and in standard details."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.rpc import error_details_pb2, status_pb2

from rota.domain.errors import FencedError, RotaError
from rota.interfaces.operations.errors import problem_for, retry_after

DOMAIN = "rota"
LONGEST_TEXT = 500  # characters of the message: clients take 8 KiB of metadata in all
MOST_DETAIL_BYTES = 4000
EXTENSIONS = ("task_id", "needed_role")  # of a problem, where it has them
STATUS: Mapping[int, grpc.StatusCode] = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    HTTPStatus.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNPROCESSABLE_ENTITY: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
}


def status_of(error: RotaError) -> grpc.StatusCode:
    if isinstance(error, FencedError):
        return grpc.StatusCode.ABORTED
    return STATUS[problem_for(error).status]


def trailers_of(error: RotaError) -> tuple[tuple[str, str | bytes], ...]:
    """What goes with the status: `rota-code`, and the details by which other tools know errors."""
    problem, pause = problem_for(error), retry_after(error)
    status = status_pb2.Status(code=status_of(error).value[0], message=text_of(error))
    more = {name: value for name in EXTENSIONS if (value := getattr(problem, name))}
    _pack(status, error_details_pb2.ErrorInfo(reason=problem.code, domain=DOMAIN, metadata=more))
    if pause is not None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.seconds = pause
        _pack(status, info)
    bad = error_details_pb2.BadRequest()
    for one in problem.errors:
        bad.field_violations.add(field=one.field[:200], description=one.problem[:LONGEST_TEXT])
        if bad.ByteSize() > MOST_DETAIL_BYTES:
            break
    if problem.errors:
        _pack(status, bad)
    return ("rota-code", problem.code), ("grpc-status-details-bin", status.SerializeToString())


def text_of(error: RotaError) -> str:
    return problem_for(error).detail[:LONGEST_TEXT]


def _pack(status: Any, detail: Any) -> None:
    packed = Packed()
    packed.Pack(detail)
    status.details.append(packed)
