"""Many seeds, on all cores."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import structlog

from tests.simulation.play import Played, play


def play_all(seeds: range, *, is_shared: bool = False) -> Iterator[Played]:
    """In the order in which they end; without their histories, which would not fit into memory."""
    with get_context("spawn").Pool(os.cpu_count(), _be_silent) as pool:
        yield from pool.imap_unordered(partial(_play_and_forget, is_shared=is_shared), seeds, chunksize=4)


def _be_silent() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def _play_and_forget(seed: int, *, is_shared: bool) -> Played:
    return replace(play(seed, is_shared=is_shared), lines=[])
