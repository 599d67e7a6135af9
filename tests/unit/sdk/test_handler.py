"""Payload in, outcome out."""

import asyncio
import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import rota
from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded
from rota.domain.checks import MAX_DETAIL, MAX_RESULT_BYTES
from rota.sdk.async_handler import run_async
from rota.sdk.context import Context
from rota.sdk.control import StopError
from rota.sdk.handler import Handler
from tests.unit.sdk.test_context import FACTS, Said

CONTEXT = Context(FACTS, Said())


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int = 1


class Order(msgspec.Struct):
    id: int


def run(function: Callable[..., Any], payload: str = "{}") -> Outcome:
    return Handler(function).run(payload, CONTEXT)


def failure(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def test_values_become_what_the_annotations_say() -> None:
    seen: dict[str, Any] = {}

    def function(  # type: ignore[no-untyped-def] # noqa: PLR0913 # fixed signature: one of each kind
        count: int,
        at: datetime,
        colour: Colour,
        address: Address,
        *,
        order: Order,
        names: list[str] | None = None,
        by_id: dict[int, float] | None = None,
        anything=None,
        ratio: float = 0.5,
    ) -> None:
        seen.update(locals())

    payload = (
        '{"count": 2, "at": "2026-01-31T09:00:00Z", "colour": "red", "address": {"street": "Main"}, '
        '"order": {"id": 7}, "by_id": {"1": 2.5}, "anything": [1, {"a": null}]}'
    )

    assert run(function, payload) == Succeeded()
    assert seen["count"] == 2
    assert seen["at"] == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert seen["colour"] is Colour.RED
    assert seen["address"] == Address("Main", 1)
    assert seen["order"] == Order(7)
    assert seen["by_id"] == {1: 2.5}
    assert seen["anything"] == [1, {"a": None}]
    assert (seen["names"], seen["ratio"]) == (None, 0.5)


def test_the_context_is_found_by_its_name_or_its_annotation() -> None:
    def by_name(ctx, left: int):  # type: ignore[no-untyped-def] # users need not annotate
        assert ctx is CONTEXT

    def by_annotation(left: int, where: rota.Context) -> None:
        assert where is CONTEXT

    def as_text(ctx: str, left: int) -> None:
        assert ctx == "mine"

    assert run(by_name, '{"left": 1}') == Succeeded()
    assert run(by_annotation, '{"left": 1}') == Succeeded()
    assert run(as_text, '{"left": 1, "ctx": "mine"}') == Succeeded()


def test_other_keys_go_to_keyword_arguments_of_any_name() -> None:
    def function(left: int, *_: int, **others: int) -> dict[str, int]:
        return others

    assert run(function, '{"left": 1, "b": 2, "c": 3}') == Succeeded(
        result=rota_result('{"b":2,"c":3}'),
    )
    assert failure(run(function, '{"left": 1, "b": "x"}')).error.message == "argument b: Expected `int`, got `str`"


def rota_result(data: str) -> Any:
    outcome = run(lambda: msgspec.json.decode(data))
    assert isinstance(outcome, Succeeded)
    assert outcome.result.data == data
    return outcome.result


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ("{}", "argument address: is missing in the payload"),
        ('{"address": {"street": 5}}', "argument address: Expected `str`, got `int` - at `$.street`"),
        ('{"address": {"street": "a"}, "extra": 1}', "argument extra: is not one that the function takes; it takes: "),
        ('{"address": {"street": "a"}, "ctx": 1}', "argument ctx: is not one that the function takes; it takes: "),
        ("[1]", "argument payload: must be a JSON object, not list"),
        ("{", "argument payload: is not JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_final_and_says_why(payload: str, problem: str) -> None:
    def function(ctx: rota.Context, address: Address) -> None:
        raise AssertionError("it must not run")

    error = failure(run(function, payload)).error

    assert error.code == "bad_payload"
    assert not error.retryable
    assert error.message.startswith(problem)


def test_a_function_that_no_payload_can_fit_is_named_as_broken() -> None:
    def positional(left: int, /) -> None: ...
    def unknown(left: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821 - the mistake

    assert "left: is positional-only" in failure(run(positional)).error.message
    assert "annotations: cannot be read: name 'Nowhere' is not defined" in failure(run(unknown)).error.message
    assert failure(run(positional)).error.code == "bad_function"


def test_a_type_that_cannot_be_made_from_json_is_refused_by_name() -> None:
    def function(left: object, right: Callable[[], int]) -> None: ...

    assert failure(run(function, '{"right": 1, "left": 2}')).error.message.startswith("argument right: ")


def test_an_argument_that_cannot_be_made_is_a_failure_like_any_other() -> None:
    @dataclass
    class Fragile:
        name: str

        def __post_init__(self) -> None:
            raise LookupError(self.name)

    def function(what: Any) -> None: ...

    function.__annotations__["what"] = Fragile

    assert failure(run(function, '{"what": {"name": "x"}}')).error.code == "LookupError"


def test_a_return_value_becomes_json() -> None:
    assert run(lambda: {"at": datetime(2026, 1, 1, tzinfo=UTC), "to": Address("Main")}) == Succeeded(
        rota_result('{"at":"2026-01-01T00:00:00Z","to":{"street":"Main","number":1}}')
    )


def test_a_return_value_that_json_cannot_hold_is_a_final_failure() -> None:
    unwritable = failure(run(lambda: object()))
    too_large = failure(run(lambda: "x" * MAX_RESULT_BYTES))

    assert (unwritable.error.code, unwritable.error.retryable) == ("bad_result", False)
    assert (too_large.error.code, too_large.error.retryable) == ("result_too_large", False)


@pytest.mark.parametrize("value", [math.nan, {"x": [1, math.inf]}, (-math.inf, None), {2.5: math.nan}])
def test_a_number_that_json_has_not_does_not_become_null(value: object) -> None:
    error = failure(run(lambda: value)).error
    assert (error.code, error.retryable) == ("bad_result", False)
    assert "Out of range float values" in error.message


def test_nothing_and_its_name_may_be_returned() -> None:
    assert run(lambda: {"at": None, 7: Address("null")}) == Succeeded(
        rota_result('{"at":null,"7":{"street":"null","number":1}}')
    )


def test_a_plain_function_that_returns_a_coroutine_is_named_as_broken() -> None:
    async def inner() -> None: ...

    assert "declare it with async def" in failure(run(lambda: inner())).error.message


def test_an_exception_is_a_failure_that_may_be_tried_again() -> None:
    def function() -> None:
        raise ValueError("no such file")

    error = failure(run(function)).error

    assert (error.code, error.message, error.retryable) == ("ValueError", "no such file", True)
    assert "in function" in error.detail


def test_an_exception_of_a_library_is_named_with_its_module() -> None:
    def function() -> None:
        raise msgspec.ValidationError("bad")

    assert failure(run(function)).error.code == "msgspec.ValidationError"


def test_even_an_exception_without_a_text_and_with_an_endless_traceback_is_told() -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def function() -> None:
        raise UnspeakableError

    def long_story() -> None:
        raise ValueError("x" * 3 * MAX_DETAIL)

    assert failure(run(function)).error.message == "(its text cannot be read: RuntimeError)"
    assert len(failure(run(long_story)).error.detail) <= MAX_DETAIL
    assert "… cut …" in failure(run(long_story)).error.detail


def test_a_task_may_ask_for_another_try_a_pause_or_the_end() -> None:
    def retry() -> None:
        raise rota.Retry(after="30s")

    def fail() -> None:
        try:
            dict[str, str]()["customer"]
        except KeyError as exc:
            raise rota.Fail("no such customer") from exc

    def snooze() -> None:
        raise rota.Snooze("5m")

    retried, failed = failure(run(retry)), failure(run(fail))
    assert (retried.error.code, retried.error.retryable, retried.retry_after) == ("retry", True, timedelta(seconds=30))
    assert (failed.error.code, failed.error.message, failed.error.retryable) == ("failed", "no such customer", False)
    assert "KeyError: 'customer'" in failed.error.detail

    def defer() -> None:
        raise rota.Defer

    assert run(snooze) == Snoozed(timedelta(minutes=5))
    assert run(defer) == Deferred()
    assert rota.Retry().after is None
    assert str(rota.Fail()) == "the task gave up"


def test_leaving_the_interpreter_is_a_failure_and_a_stop_passes_through() -> None:
    def leave() -> None:
        raise SystemExit(3)

    def stopped() -> None:
        raise StopError

    assert failure(run(leave)).error.code == "SystemExit"
    with pytest.raises(StopError):
        run(stopped)


async def test_a_coroutine_is_run_in_the_same_way() -> None:
    async def function(left: int) -> int:
        return left + 1

    async def broken() -> None:
        raise ValueError("no")

    assert await run_async(Handler(function), '{"left": 1}', context=CONTEXT) == Succeeded(rota_result("2"))
    assert failure(await run_async(Handler(function), "{}", context=CONTEXT)).error.code == "bad_payload"
    assert failure(await run_async(Handler(broken), "{}", context=CONTEXT)).error.code == "ValueError"


def test_a_coroutine_that_its_loop_has_left_behind_ends_without_an_outcome() -> None:
    async def function() -> None:
        await asyncio.sleep(0)  # noqa: TID251 - where the loop leaves it

    left = run_async(Handler(function), "{}", context=CONTEXT)
    left.send(None)
    with pytest.raises(GeneratorExit):
        left.throw(GeneratorExit)  # as the garbage collector does
