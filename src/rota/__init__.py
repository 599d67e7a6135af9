"""Rota: a distributed task scheduler whose store and coordination are exchangeable."""

from typing import TYPE_CHECKING, Any

from rota.__about__ import __version__
from rota.domain.errors import (
    ConfigError,
    ConflictError,
    DeniedError,
    InvalidError,
    LockLostError,
    NotFoundError,
    RateLimitedError,
    RotaError,
    UnauthenticatedError,
    UnavailableError,
)
from rota.domain.retry import RetryPolicy
from rota.sdk.context import Context
from rota.sdk.control import Defer, Fail, Retry, Snooze
from rota.sdk.tasks import cron, task
from rota.sdk.views import TaskView

if TYPE_CHECKING:
    from rota.client.asynchronous import AsyncClient
    from rota.client.blocking import Client
    from rota.embedding import Handle, Rota

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigError",
    "ConflictError",
    "Context",
    "Defer",
    "DeniedError",
    "Fail",
    "Handle",
    "InvalidError",
    "LockLostError",
    "NotFoundError",
    "RateLimitedError",
    "Retry",
    "RetryPolicy",
    "Rota",
    "RotaError",
    "Snooze",
    "TaskView",
    "UnauthenticatedError",
    "UnavailableError",
    "__version__",
    "cron",
    "task",
]


def __getattr__(name: str) -> Any:
    """What brings much along is imported when it is first named: the clients an HTTP library, and `Rota` what schedules
    and submissions are made of, which processes that run tasks, and most commands, do without."""
    if name == "AsyncClient":
        from rota.client.asynchronous import AsyncClient

        return AsyncClient
    if name == "Client":
        from rota.client.blocking import Client

        return Client
    if name == "Handle":
        from rota.embedding import Handle

        return Handle
    if name == "Rota":
        from rota.embedding import Rota

        return Rota
    raise AttributeError(f"module 'rota' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Also what is imported when it is first named."""
    return sorted({*globals(), *__all__})
