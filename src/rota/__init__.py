"""Rota: a distributed task scheduler whose store and coordination are exchangeable."""

from rota.__about__ import __version__
from rota.domain.retry import RetryPolicy
from rota.embedding import Handle, Rota
from rota.sdk.context import Context
from rota.sdk.control import Fail, Retry, Snooze
from rota.sdk.tasks import task
from rota.sdk.views import TaskView

__all__ = ["Context", "Fail", "Handle", "Retry", "RetryPolicy", "Rota", "Snooze", "TaskView", "__version__", "task"]
