from datetime import UTC, datetime
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.paging import MAX_PURGE, TaskFilter, purge_limit
from tests.support.builders import NOW


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("limit", {"limit": 0}),
        ("limit", {"limit": -1}),
        ("limit", {"limit": 1001}),
        ("q", {"text": "nul \x00"}),
        ("type", {"types": frozenset({"two words"})}),
        ("created_after", {"created_after": NOW.replace(tzinfo=None)}),
        ("created_before", {"created_before": NOW.replace(tzinfo=None)}),
        ("metadata", {"metadata": None}),
        ("metadata.order", {"metadata": {"order": "\ud800"}}),
    ],
)
def test_a_filter_that_no_store_could_answer_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        TaskFilter(**wrong)

    assert refusal.value.field == field


def test_a_filter_may_combine_everything() -> None:
    wanted = TaskFilter(types=frozenset({"email", "report"}), text="Müller", metadata={"order": "7"}, limit=1000)

    assert wanted.types == {"email", "report"}


def test_a_filter_may_ask_for_all_time() -> None:
    always = TaskFilter(created_after=datetime.min.replace(tzinfo=UTC), created_before=datetime.max.replace(tzinfo=UTC))

    assert always.created_after != always.created_before


def test_a_purge_is_bounded_however_much_is_asked_for() -> None:
    assert purge_limit(1) == 1
    assert purge_limit(MAX_PURGE * 10) == MAX_PURGE


def test_a_purge_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidError, match="at least 1"):
        purge_limit(0)
