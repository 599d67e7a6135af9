import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

import rota
from rota.domain.errors import InvalidError
from rota.domain.schedule import Overlap, Schedule
from rota.sdk import tasks
from rota.sdk.tasks import REGISTRY, TaskFunction, TaskRegistry, define, registry_of


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskRegistry]:
    """A registry for this test alone."""
    own = TaskRegistry()
    monkeypatch.setattr(tasks, "REGISTRY", own)
    yield own


def test_a_task_is_still_the_function_it_was(registry: TaskRegistry) -> None:
    @rota.task("add", timeout="1m", retries=3)
    def add(left: int, right: int = 1) -> int:
        """Adds."""
        return left + right

    assert add(2, right=3) == 5
    assert add.__name__ == "add"
    assert add.__doc__ == "Adds."
    assert registry.find("add") is add
    assert list(registry) == [add]
    assert not add.is_async
    assert repr(add).startswith("<task 'add': tests.unit.sdk.test_tasks:")


async def test_a_coroutine_function_is_one_still() -> None:
    @rota.task("add")
    async def add(left: int) -> int:
        return left + 1

    assert add.is_async
    assert await add(1) == 2


def test_options_are_read_once_and_checked() -> None:
    definition = define(
        "report",
        {
            "timeout": "1h30m",
            "retries": 0,
            "retry_delay": 5,
            "retry_on": ["5xx", "ConnectionError"],
            "give_up_on": ["501"],
            "total_timeout": "1d",
            "priority": "high",
            "max_concurrent": 2,
            "rate_per_second": 1,
            "isolation": "thread",
            "name": "Report",
            "description": "Makes it",
        },
    )

    assert definition.timeout == timedelta(minutes=90)
    assert definition.retry_delay == timedelta(seconds=5)
    assert (definition.retry_on, definition.give_up_on) == (("5xx", "ConnectionError"), ("501",))
    assert definition.total_timeout == timedelta(days=1)
    assert (definition.retries, definition.priority, definition.max_concurrent) == (0, 5, 2)
    assert (definition.rate_per_second, definition.isolation) == (1.0, "thread")


def test_what_is_not_said_is_left_to_the_settings() -> None:
    definition = define("report", {})

    assert definition.timeout is None
    assert definition.retries is None
    assert definition.priority is None
    assert definition.rate_per_second is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"timeout": "soon"}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"retry_delay": "1"}, "retry_delay"),
        ({"retry_on": "503"}, "retry_on"),
        ({"give_up_on": ["6xx"]}, "give_up_on[0]"),
        ({"total_timeout": "soon"}, "total_timeout"),
        ({"priority": "extreme"}, "priority"),
        ({"priority": 10}, "priority"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"rate_per_second": 0}, "rate_per_second"),
        ({"rate_per_second": True}, "rate_per_second"),
        ({"rate_per_second": float("inf")}, "rate_per_second"),
        ({"isolation": "container"}, "isolation"),
        ({"name": 5}, "name"),
        ({"timout": "1m"}, "timout"),
    ],
)
def test_a_wrong_option_is_named(options: Any, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        rota.task("report", **options)

    assert caught.value.field == field


@pytest.mark.parametrize("task_type", ["", "two words", None])
def test_a_wrong_type_is_refused(task_type: Any) -> None:
    with pytest.raises(InvalidError, match=r"^type:"):
        rota.task(task_type)


def test_a_decorator_without_a_type_says_what_to_write() -> None:
    with pytest.raises(InvalidError, match=r"write @rota\.task"):
        rota.task(print)  # type: ignore[arg-type] # the mistake


def test_isolation_is_for_plain_functions() -> None:
    async def add() -> None: ...

    with pytest.raises(InvalidError, match=r"^isolation:"):
        rota.task("add", isolation="process")(add)


def test_two_functions_of_one_type_are_refused_but_a_module_may_be_loaded_again(registry: TaskRegistry) -> None:
    def one() -> None: ...
    def other() -> None: ...

    rota.task("add")(one)
    again = rota.task("add")(one)
    assert registry.find("add") is again

    with pytest.raises(InvalidError, match=r"'add' is already .*one; .*other needs a type of its own"):
        rota.task("add")(other)


def test_the_default_registry_holds_what_the_decorator_makes() -> None:
    assert isinstance(REGISTRY, TaskRegistry)
    assert all(isinstance(function, TaskFunction) for function in REGISTRY)


def test_a_function_can_run_by_the_clock(registry: TaskRegistry) -> None:
    @rota.cron("0 9 * * 1-5", zone="Asia/Shanghai", schedule={"overlap": "allow"}, timeout="1m")
    async def morning_report() -> None:
        """Reports."""

    @rota.cron("@daily", type="sweep", isolation="thread")
    def clean() -> None:
        """Cleans."""

    definition = morning_report.definition
    assert (definition.type, definition.timeout) == ("morning_report", timedelta(minutes=1))
    assert definition.schedule == Schedule(cron="0 9 * * 1-5", zone="Asia/Shanghai", overlap=Overlap.ALLOW)
    assert [one.definition.type for one in registry] == ["morning_report", "sweep"]
    assert clean.definition.isolation == "thread"


@pytest.mark.parametrize(
    ("expression", "options", "field"),
    [
        ("61 * * * *", {}, "schedule.cron"),
        ("* * * * *", {"zone": "Mars/Olympus"}, "schedule.zone"),
        ("* * * * *", {"schedule": {"overlpa": "allow"}}, "schedule.overlpa"),
        ("* * * * *", {"isolation": "thread"}, "isolation"),
        (len, {}, "cron"),
    ],
)
def test_a_clock_that_cannot_be_meant_is_refused(expression: Any, options: dict[str, Any], field: str) -> None:
    async def function() -> None:
        """Never run."""

    with pytest.raises(InvalidError) as caught:
        rota.cron(expression, **options)(function)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dialect": "quartz"}, "dialect: belongs to the schedule: write schedule={'dialect': 'quartz'}"),
        ({"zone": "UTC", "schedule": {"zone": "UTC"}}, "schedule.zone: is given twice"),
        ({"schedule": {"cron": "@daily"}}, "schedule.cron: is given twice"),
    ],
)
def test_what_is_said_twice_or_in_the_wrong_place_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidError) as caught:
        rota.cron("0 0 9 ? * 2-6", **options)
    assert str(caught.value).startswith(told)


def test_a_clock_without_an_expression_is_told_how_it_is_written() -> None:
    with pytest.raises(InvalidError, match=r'cron: is missing: write .* or, for a pace, @rota.cron\("@every 5s"\)'):
        rota.cron(schedule={"every_seconds": 5})


def test_the_zone_may_be_among_the_keys_of_the_schedule() -> None:
    @rota.cron("0 9 * * *", schedule={"zone": "Asia/Tokyo"})
    async def there() -> None: ...

    assert there.definition.schedule == Schedule(cron="0 9 * * *", zone="Asia/Tokyo")


@pytest.mark.parametrize(
    ("option", "told"), [("timout", "did you mean timeout?"), ("zzz", "known are timeout, retries, retry_delay, ")]
)
def test_an_option_that_is_none_is_told_with_the_nearest(option: str, told: str) -> None:
    with pytest.raises(InvalidError) as refused:
        rota.task("email", **{option: "1m"})  # type: ignore[arg-type] # the mistake
    assert f"{option}: is no option of a task; {told}" in str(refused.value)


def test_a_generator_is_refused_for_it_would_seem_to_run() -> None:
    with pytest.raises(InvalidError, match=r"function: .*lines yields, and a task returns"):

        @rota.task("lines")
        def lines() -> Iterator[int]:
            yield 1

    with pytest.raises(InvalidError, match=r"function: .*later yields, and a task returns"):

        @rota.cron("0 9 * * *")
        async def later() -> AsyncIterator[int]:
            yield 1


def test_an_argument_by_position_alone_is_refused_for_no_payload_could_fit() -> None:
    with pytest.raises(InvalidError, match=r"function: .*add takes left by position alone"):

        @rota.task("add")
        async def add(left: int, /, *rest: int) -> None: ...

    def plain(left: int, /) -> None: ...

    @functools.wraps(plain)
    def wrapped(*args: int) -> None: ...

    with pytest.raises(InvalidError, match=r"function: .*plain takes left by position alone"):
        rota.task("add")(wrapped)


def test_functions_make_a_registry_of_their_own(registry: TaskRegistry) -> None:
    @rota.task("one")
    def one() -> None: ...

    @rota.task("two")
    def two() -> None: ...

    assert list(registry_of([two])) == [two]
    assert registry_of(registry) is registry
    with pytest.raises(InvalidError, match=r"tasks: .* is not decorated with @rota.task"):
        registry_of([print])  # type: ignore[list-item] # the mistake
