"""Rota: a distributed task scheduler whose store and coordination are exchangeable."""

from rota.__about__ import __version__
from rota.sdk.context import Context
from rota.sdk.control import Fail, Retry, Snooze
from rota.sdk.tasks import task

__all__ = ["Context", "Fail", "Retry", "Snooze", "__version__", "task"]
