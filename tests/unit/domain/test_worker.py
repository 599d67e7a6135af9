from typing import Any

import pytest

from rota.domain.errors import InvalidError
from tests.support.builders import EMAIL, a_worker


@pytest.mark.parametrize(("load", "room"), [(0, 10), (9, 1), (10, 0), (12, 0)])
def test_room_is_what_the_load_leaves_of_the_capacity(load: int, room: int) -> None:
    assert a_worker(capacity=10, load=load).room == room


def test_a_draining_worker_has_no_room() -> None:
    assert a_worker(capacity=10, load=0, is_draining=True).room == 0


@pytest.mark.parametrize(("types", "supported"), [({"*"}, True), ({EMAIL, "report"}, True), ({"report"}, False)])
def test_a_worker_supports_its_types_or_every_type(types: set[str], supported: bool) -> None:
    assert a_worker(types=frozenset(types)).supports(EMAIL) is supported


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("worker.name", {"name": "two words"}),
        ("worker.address", {"address": "x" * 256}),
        ("worker.capacity", {"capacity": 0}),
        ("worker.capacity", {"capacity": 1001}),
        ("worker.weight", {"weight": 0}),
    ],
)
def test_an_unsound_worker_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        a_worker(**wrong)

    assert refusal.value.field == field
