"""Sums and lists of ids as JSON, for every store that keeps them so."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from rota.domain.ids import TaskId
from rota.domain.rollup import Figures

_FIGURES = msgspec.json.Decoder(Figures)
_IDS = msgspec.json.Decoder(list[int])
write_figures = msgspec.json.encode


def read_figures(written: str | bytes) -> Figures:
    return _FIGURES.decode(written)


def write_ids(ids: Sequence[TaskId]) -> bytes:
    """The first, and by how much each is greater than the one before: half as long."""
    return msgspec.json.encode([one - before for one, before in zip(ids, (0, *ids), strict=False)])


def read_ids(written: str | bytes) -> tuple[TaskId, ...]:
    return tuple(map(TaskId, accumulate(_IDS.decode(written))))
