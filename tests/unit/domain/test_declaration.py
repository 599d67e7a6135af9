"""Which task configs are the code's own."""

from datetime import timedelta
from typing import Any

import pytest

from rota.domain.declaration import as_put, executor_settings, find_declaration, mark, names_schedule
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig
from rota.testing.values import replace
from tests.support.builders import a_config

HOURLY = Schedule(cron="0 * * * *")
MARKED = mark("1f", names_schedule=True)
DECLARED = a_config("email", executor_config=MARKED, schedule=HOURLY, revision=3, updated_by="pod-1")


def test_the_mark_says_which_declaration_made_a_config_and_is_not_shown() -> None:
    assert find_declaration(DECLARED) == "1f"
    assert executor_settings(DECLARED) == {}
    assert executor_settings(replace(DECLARED, executor_config='{"declared":"1f","function":"a:b"}')) == {
        "function": "a:b"
    }


@pytest.mark.parametrize(
    ("text", "is_named"),
    [(MARKED, True), (mark("1f"), False), ('{"declared":"of an earlier release"}', False), ("{}", False)],
)
def test_the_mark_says_whether_that_declaration_named_a_schedule(text: str, is_named: bool) -> None:
    assert names_schedule(replace(DECLARED, executor_config=text)) == is_named


@pytest.mark.parametrize(
    "theirs",
    [
        a_config("email"),
        a_config("email", executor_config='["declared"]'),
        a_config("email", executor_config='{"function":"declared:b"}'),
        a_config("email", executor_type="their_own", executor_config='{"declared":"x"}'),
    ],
)
def test_a_config_of_somebody_has_none_and_is_shown_as_it_is(theirs: TaskConfig) -> None:
    assert find_declaration(theirs) is None
    assert as_put(theirs, None) is theirs
    assert as_put(theirs, DECLARED) is theirs


def test_what_says_the_same_stays_the_code_s() -> None:
    for text in (mark("1f"), "{}", '{"declared":"of another time"}'):
        assert as_put(replace(DECLARED, executor_config=text), DECLARED) == DECLARED


@pytest.mark.parametrize(
    "change",
    [
        {"is_enabled": False},
        {"payload": '{"to":"ada"}'},
        {"schedule": replace(HOURLY, is_paused=True, pause_note="until Monday")},
    ],
)
def test_what_code_never_says_is_no_other_word_than_the_code_s(change: dict[str, Any]) -> None:
    assert as_put(replace(DECLARED, **change), DECLARED) == replace(DECLARED, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"timeout": timedelta(seconds=77)},
        {"schedule": None},
        {"schedule": Schedule(cron="5 * * * *")},
        {"description": "Mine"},
        {"source": "files"},
        {"executor_config": '{"declared": "1f", "function": "a:b"}'},
    ],
)
def test_what_somebody_puts_otherwise_is_theirs(change: dict[str, Any]) -> None:
    put = as_put(replace(DECLARED, **change), DECLARED)
    assert find_declaration(put) is None
    assert "declared" not in put.executor_config
    assert put == replace(DECLARED, **change | {"executor_config": put.executor_config})


def test_a_schedule_that_somebody_adds_makes_the_config_theirs() -> None:
    plain = replace(DECLARED, schedule=None)
    assert find_declaration(as_put(DECLARED, plain)) is None
    assert as_put(plain, plain) == plain


def test_nobody_can_put_the_mark() -> None:
    assert as_put(DECLARED, None) == replace(DECLARED, executor_config="{}")
    assert as_put(DECLARED, a_config("email")) == replace(DECLARED, executor_config="{}")
