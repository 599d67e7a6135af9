"""What a query may be."""

import pytest

from rota.domain.errors import InvalidError
from rota.domain.task import FAILED, TIMEOUT
from rota.interfaces.http.query import parse_query
from rota.interfaces.operations.operation import NoQuery
from rota.interfaces.operations.queries import EventsQuery, GetTaskQuery, ListTasksQuery, ListWorkersQuery


def test_an_empty_query_has_all_defaults() -> None:
    query = parse_query(b"", ListTasksQuery)
    assert (query.limit, query.status, query.cursor, query.metadata) == (50, [], None, {})


def test_filters_may_be_repeated_and_facts_are_gathered() -> None:
    raw = b"status=FAILED&status=TIMEOUT&type=a&priority=9&metadata.region=eu&metadata.tier=gold&limit=7&q=x+y%2Bz"
    query = parse_query(raw, ListTasksQuery)
    assert query.status == [FAILED, TIMEOUT]
    assert (query.type, query.priority, query.limit, query.q) == (["a"], [9], 7, "x y+z")
    assert query.metadata == {"region": "eu", "tier": "gold"}


@pytest.mark.parametrize("raw", [b"all=true", b"all=1"])
def test_truth_may_be_a_word_or_a_digit(raw: bytes) -> None:
    assert parse_query(raw, ListWorkersQuery).all


@pytest.mark.parametrize(
    ("raw", "field", "problem"),
    [
        (b"stauts=FAILED", "stauts", "is not known"),
        (b"status=failed", "status[0]", "did you mean FAILED"),
        (b"limit=0", "limit", "at least 1"),
        (b"limit=1001", "limit", "at most 1000"),
        (b"limit=many", "limit", "must be a whole number, not text"),
        (b"limit=1&limit=2", "limit", "is given twice"),
        (b"metadata.a=1&metadata.a=2", "metadata.a", "is given twice"),
        (b"metadata=1", "metadata", "metadata.KEY=VALUE"),
        (b"priority=10", "priority[0]", "at most 9"),
        (b"q=%00", "q", "NUL"),
        (b"q=%ff", "query", "UTF-8"),
        (b"created_after=yesterday", "created_after", "must be a time"),
        (b"cursor=" + b"a" * 3000, "cursor", "at most 2000"),
        (b"&".join([b"type=a"] * 300), "query", "more than 200"),
    ],
)
def test_a_bad_query_is_refused_with_its_parameter(raw: bytes, field: str, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem) as caught:
        parse_query(raw, ListTasksQuery)
    assert caught.value.field == field


def test_where_nothing_is_taken_anything_is_too_much() -> None:
    with pytest.raises(InvalidError, match="is not known"):
        parse_query(b"metadata.a=1", NoQuery)


@pytest.mark.parametrize("raw", [b"wait=", b"wait=-1", b"wait=1h", b"wait=soon", b"wait=1e3"])
def test_a_wait_is_a_short_duration(raw: bytes) -> None:
    with pytest.raises(InvalidError):
        parse_query(raw, GetTaskQuery)


def test_a_kind_of_event_that_there_is_not_is_refused() -> None:
    with pytest.raises(
        InvalidError, match=r"must be one of task\.created, .*not 'task.complete'; did you mean"
    ) as caught:
        parse_query(b"kind=task.complete", EventsQuery)
    assert caught.value.field.startswith("kind")
