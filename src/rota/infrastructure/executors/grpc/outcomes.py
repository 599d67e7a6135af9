"""From what a call ended with to the outcome of the attempt."""

import re
from collections.abc import Iterable
from datetime import timedelta

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from rota.domain.attempt import Failed, TaskError

LONGEST_WAIT = timedelta(hours=1)  # that a service may ask for
DETAILS = "grpc-status-details-bin"
# What the library says of an answer that is larger than the channel takes. The status is one that servers send, too,
# and then trying again may help: nothing else tells the two apart.
TOO_LARGE = re.compile(r"CLIENT: Received message larger than max \(\d+ vs\. (\d+)\)")
FINAL = frozenset(  # trying again would end the same
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.DATA_LOSS,
    }
)


def failure_of(error: grpc.aio.AioRpcError, *, most: int) -> Failed:
    """A status other than OK; a `RetryInfo` among its details says when to try again. `most` bytes may be answered."""
    code, details = error.code(), error.details() or ""
    found = TOO_LARGE.search(details) if code is grpc.StatusCode.RESOURCE_EXHAUSTED else None
    if found is not None and found[1] == str(most):
        return refused("response_too_large", f"the answer is larger than grpc.max_message, {most} bytes")
    told = TaskError(f"grpc_{code.name.lower()}", details, retryable=code not in FINAL)
    return Failed(told, retry_after=_find_pause(error.trailing_metadata() or ()))


def refused(code: str, message: str) -> Failed:
    """A failure that no other try would mend."""
    return Failed(TaskError(code, message, retryable=False))


def span_of(duration: Duration) -> timedelta:
    """As a timedelta: a message may hold ten thousand years, and times before now."""
    return timedelta(seconds=min(max(duration.seconds, 0), 10**9), microseconds=max(duration.nanos, 0) // 1000)


def clamp(pause: timedelta) -> timedelta:
    """What is asked for, within reason."""
    return min(pause, LONGEST_WAIT)


def _find_pause(trailers: Iterable[tuple[str, str | bytes]]) -> timedelta | None:
    for key, value in trailers:
        if key == DETAILS and isinstance(value, bytes):
            return _read_pause(value)
    return None


def _read_pause(raw: bytes) -> timedelta | None:
    info = error_details_pb2.RetryInfo()
    try:
        for detail in status_pb2.Status.FromString(raw).details:
            if detail.Unpack(info):
                return clamp(span_of(info.retry_delay))
    except DecodeError:  # what cannot be read asks for nothing
        pass
    return None
