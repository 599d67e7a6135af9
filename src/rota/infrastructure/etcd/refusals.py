"""What etcd says when it has not done something, and what is to be made of it."""

from typing import Any

import grpc
import grpc.aio

from rota.domain.errors import InvalidError
from rota.infrastructure.etcd.login import NotLetInError
from rota.infrastructure.etcd.ops import MOST_TAKEN

TOO_LONG = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT})
ELSEWHERE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN})
NO_LEADER = "etcdserver: no leader"  # the member says so before it does anything
# Users or rights were changed since the login, so it does nothing; the second is what etcd says up to some 3.5.
OLD_LOGIN = frozenset({"etcdserver: revision of auth store is old", "auth: revision in header is old"})


def is_worth_repeating(error: Exception, *, may_repeat: bool, before: Exception | None) -> bool:
    """Whether what failed was not done, or may be done again, and another member or moment may be better."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return may_repeat or isinstance(error, NotLetInError)
    if is_login_over(error):  # with a new token, once; a member that was asked before had other troubles
        return not (isinstance(before, grpc.aio.AioRpcError) and is_login_over(before))
    return error.details() == NO_LEADER or (may_repeat and error.code() in ELSEWHERE)


def is_login_over(error: grpc.aio.AioRpcError) -> bool:
    """The token has ended, or was given before a change of rights."""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED or error.details() in OLD_LOGIN


def is_forbidden(error: BaseException | None) -> bool:
    """Our user must not ask for that."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.PERMISSION_DENIED


def check_size(error: grpc.aio.AioRpcError, asked: Any) -> None:
    """What etcd refuses because it is too long will never pass: nobody may take that for an outage."""
    size = len(asked) if isinstance(asked, bytes) else 0  # nothing but a transaction is long
    if error.code() in TOO_LONG and size >= MOST_TAKEN:
        raise InvalidError("request", f"has {size} bytes, and etcd takes {MOST_TAKEN} at once") from error
