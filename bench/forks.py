"""Processes of the benchmark's own. Ctrl-C reaches all of them: they end without a word, since one is said already."""

import signal
from collections.abc import Callable
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")


def in_a_fork(work: Callable[..., T], *arguments: object) -> T:
    """What it returns; nothing must run beside it here."""
    with get_context("fork").Pool(1, initializer=end_in_silence) as pool:
        return pool.apply(work, arguments)


def end_in_silence() -> None:
    """When it is interrupted; the process that began this one tells of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
