from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from rota.domain.worker import ANY_TYPE, MAX_CAPACITY, MAX_TYPES, Heartbeat, needed_by
from rota.testing.values import replace
from tests.support.builders import EMAIL, a_config, a_worker


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
        ("worker.types", {"types": frozenset()}),
        ("worker.types", {"types": "email"}),
        ("worker.types", {"types": None}),
        ("worker.types", {"types": frozenset({"two words"})}),
        ("worker.types", {"types": frozenset({7})}),
        ("worker.types", {"types": frozenset({"@"})}),
        ("worker.types", {"types": frozenset(map(str, range(MAX_TYPES + 1)))}),
        ("worker.labels", {"labels": None}),
        ("worker.labels", {"labels": {7: "x"}}),
        ("worker.labels.zone", {"labels": {"zone": 7}}),
        ("worker.labels", {"labels": {f"label-{number}": "城" * 500 for number in range(64)}}),
    ],
)
def test_an_unsound_worker_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        a_worker(**wrong)

    assert refusal.value.field == field


def test_a_worker_may_name_types_beside_all_and_have_labels() -> None:
    worker = a_worker(types=frozenset({ANY_TYPE, EMAIL}), labels={"zone": "东"})

    assert worker.supports("report")
    assert worker.labels == {"zone": "东"}


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("heartbeat.load", {"load": -1}),
        ("heartbeat.load", {"load": 2**31}),
        ("heartbeat.completed", {"completed": -1}),
        ("heartbeat.completed", {"completed": 2**63}),
        ("heartbeat.held", {"held": frozenset((TaskId(number), 1) for number in range(MAX_CAPACITY + 1))}),
    ],
)
def test_an_unsound_heartbeat_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        Heartbeat(**{"load": 0, **wrong})

    assert refusal.value.field == field


def test_a_heartbeat_may_say_that_every_slot_is_taken() -> None:
    held = frozenset((TaskId(number), 1) for number in range(MAX_CAPACITY))
    assert len(Heartbeat(load=MAX_CAPACITY, held=held).held) == MAX_CAPACITY


def test_a_worker_with_another_load_is_otherwise_the_same() -> None:
    worker = a_worker(
        1, capacity=5, load=1, types=frozenset({"email"}), labels={"zone": "a"}, weight=3, is_draining=True
    )

    assert worker.with_load(4) == replace(worker, load=4)
    assert worker.load == 1


def test_an_executor_among_the_types_stands_for_all_that_it_runs() -> None:
    worker = a_worker(types=frozenset({EMAIL, "@http"}))

    assert worker.supports("webhook", "http")
    assert not worker.supports("webhook", "local")
    assert not worker.supports("webhook")
    assert worker.supports(EMAIL, "local")


@pytest.mark.parametrize(
    ("types", "supported"),
    [({"@local"}, True), ({"@local.shop"}, True), ({"@local.shop.jobs"}, True), ({"@local.sho"}, False)],
)
def test_a_type_whose_config_names_a_function_is_run_where_its_module_is(types: set[str], *, supported: bool) -> None:
    config = a_config("report", executor_config='{"function": "shop.jobs:run"}')
    assert needed_by(config) == "local.shop.jobs"
    assert a_worker(types=frozenset(types)).supports("report", needed_by(config)) is supported


@pytest.mark.parametrize("said", ['{"function": 7}', '["function"]', "{}"])
def test_a_type_whose_config_names_none_needs_its_executor(said: str) -> None:
    assert needed_by(a_config("report", executor_config=said)) == "local"
    assert needed_by(a_config("report", executor_type="http", executor_config='{"function": "a:b"}')) == "http"
