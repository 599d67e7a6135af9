from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.checks import MAX_DURATION
from rota.domain.errors import InvalidError
from rota.domain.retry import GRPC_CODES, MAX_RETRIES, OWN_CODES, RetryPolicy, RetryStrategy, check_spelling
from tests.support.builders import HOUR, SECOND
from tests.support.properties import BROAD_PROPERTY

NOTHING = timedelta(0)
chances = st.floats(0, 1, exclude_max=True)
retries = st.integers(1, MAX_RETRIES)


@st.composite
def policies(draw: st.DrawFn, /, **fixed: Any) -> RetryPolicy:
    delay, max_delay = sorted(
        draw(st.tuples(st.timedeltas(NOTHING, MAX_DURATION), st.timedeltas(NOTHING, MAX_DURATION)))
    )
    chosen = {
        "strategy": draw(st.sampled_from(RetryStrategy)),
        "backoff_rate": draw(st.floats(1, 100)),
        "jitter": draw(st.floats(0, 1)),
    }
    return RetryPolicy(delay=delay, max_delay=max_delay, **chosen | fixed)


def test_by_default_a_task_is_tried_again_after_10_20_and_40_seconds() -> None:
    policy = RetryPolicy(jitter=0.0)

    assert [policy.delay_before(retry, chance=0.5) for retry in (1, 2, 3)] == [10 * SECOND, 20 * SECOND, 40 * SECOND]
    assert [policy.allows(retry_count) for retry_count in (0, 2, 3)] == [True, True, False]


def test_a_fixed_pause_stays_the_same() -> None:
    policy = RetryPolicy(strategy=RetryStrategy.FIXED, delay=7 * SECOND, jitter=0.0)

    assert {policy.delay_before(retry, chance=0.5) for retry in range(1, 100)} == {7 * SECOND}


@BROAD_PROPERTY
@given(policies(), retries, chances)
def test_a_pause_is_never_negative_and_never_above_the_maximum(policy: RetryPolicy, retry: int, chance: float) -> None:
    assert NOTHING <= policy.delay_before(retry, chance=chance) <= policy.max_delay


@BROAD_PROPERTY
@given(policies(jitter=0.0), st.integers(1, MAX_RETRIES - 1), chances)
def test_without_jitter_a_pause_is_never_shorter_than_the_one_before(
    policy: RetryPolicy, retry: int, chance: float
) -> None:
    assert policy.delay_before(retry, chance=chance) <= policy.delay_before(retry + 1, chance=chance)


@BROAD_PROPERTY
@given(policies(), retries, chances)
def test_chance_only_shortens_a_pause_and_by_no_more_than_the_jitter(
    policy: RetryPolicy, retry: int, chance: float
) -> None:
    longest, spread = policy.delay_before(retry, chance=0.0), policy.delay_before(retry, chance=chance)

    assert longest * (1 - policy.jitter) - timedelta(microseconds=1) <= spread <= longest


def test_a_thousand_retries_at_a_hundredfold_rate_end_at_the_maximum() -> None:
    policy = RetryPolicy(max_retries=MAX_RETRIES, backoff_rate=100.0, jitter=0.0)

    assert policy.delay_before(MAX_RETRIES, chance=0.0) == HOUR


def test_a_policy_without_pause_never_pauses_however_often_it_retries() -> None:
    policy = RetryPolicy(max_retries=MAX_RETRIES, delay=NOTHING, backoff_rate=100.0)

    assert policy.delay_before(MAX_RETRIES, chance=0.0) == NOTHING


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("retry.max_retries", {"max_retries": -1}),
        ("retry.max_retries", {"max_retries": MAX_RETRIES + 1}),
        ("retry.max_retries", {"max_retries": True}),
        ("retry.delay_seconds", {"delay": -SECOND}),
        ("retry.delay_seconds", {"delay": timedelta(days=400)}),
        ("retry.max_delay_seconds", {"delay": 2 * HOUR, "max_delay": HOUR}),
        ("retry.strategy", {"strategy": "bogus"}),
        ("retry.backoff_rate", {"backoff_rate": 0.5}),
        ("retry.backoff_rate", {"backoff_rate": float("nan")}),
        ("retry.jitter", {"jitter": 1.5}),
        ("retry.jitter", {"jitter": float("nan")}),
    ],
)
def test_an_unreasonable_policy_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        RetryPolicy(**wrong)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("matcher", "code", "is_match"),
    [
        ("503", "http_503", True),
        ("503", "http_502", False),
        ("5xx", "http_502", True),
        ("5xx", "http_5000", False),
        ("5xx", "http_404", False),
        ("UNAVAILABLE", "grpc_unavailable", True),
        ("DEADLINE_EXCEEDED", "grpc_deadline_exceeded", True),
        ("unavailable", "grpc_unavailable", False),
        ("ValueError", "ValueError", True),
        ("ValueError", "MyValueError", False),
        ("ShopError", "shop.errors.ShopError", True),
        ("shop.errors.ShopError", "shop.errors.ShopError", True),
        ("shop.errors.ShopError", "ShopError", False),
        ("E", "E", True),
        ("rate_limited", "rate_limited", True),
        ("timeout", "timeout", True),
    ],
)
def test_a_matcher_is_a_status_a_grpc_code_an_exception_or_a_code(matcher: str, code: str, is_match: bool) -> None:
    assert RetryPolicy(retry_on=(matcher,)).wants(code, is_retryable=False) is is_match
    assert RetryPolicy(give_up_on=(matcher,)).wants(code, is_retryable=True) is not is_match


def test_to_give_up_wins() -> None:
    policy = RetryPolicy(retry_on=("5xx",), give_up_on=("501", "retry"))

    assert [policy.wants(code, is_retryable=True) for code in ("http_500", "http_501", "retry")] == [True, False, False]


def test_without_matchers_the_executor_decides() -> None:
    assert [RetryPolicy().wants("boom", is_retryable=is_so) for is_so in (True, False)] == [True, False]


@pytest.mark.parametrize(
    ("field", "given", "named"),
    [
        ("retry_on", "503", "retry.retry_on"),
        ("retry_on", 503, "retry.retry_on"),
        ("retry_on", ("503", ""), "retry.retry_on[1]"),
        ("give_up_on", ("6xx",), "retry.give_up_on[0]"),
        ("give_up_on", ("99",), "retry.give_up_on[0]"),
        ("give_up_on", ("a b",), "retry.give_up_on[0]"),
        ("give_up_on", (503,), "retry.give_up_on[0]"),
        ("give_up_on", ("x" * 201,), "retry.give_up_on[0]"),
        ("retry_on", ("503",) * 33, "retry.retry_on"),
        ("total_timeout", NOTHING, "retry.total_timeout_seconds"),
        ("total_timeout", MAX_DURATION + SECOND, "retry.total_timeout_seconds"),
    ],
)
def test_matchers_that_could_match_nothing_and_times_out_of_reason_are_refused(
    field: str, given: Any, named: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        RetryPolicy(**{field: given})

    assert refused.value.field == named


def test_a_list_of_matchers_becomes_a_tuple() -> None:
    policy = RetryPolicy(retry_on=["503"])  # type: ignore[arg-type]  # as JSON has it

    assert (policy.retry_on, hash(policy)) == (("503",), hash(RetryPolicy(retry_on=("503",))))


def test_what_was_not_tried_at_all_is_tried_whatever_failures_are_named() -> None:
    named = RetryPolicy(retry_on=("503",))
    assert named.wants("circuit_open", is_retryable=True)
    assert not RetryPolicy(give_up_on=("circuit_open",)).wants("circuit_open", is_retryable=True)


@pytest.mark.parametrize(
    ("matcher", "meant"),
    [
        ("UNAVALABLE", "UNAVAILABLE"),
        ("DEADLINE_EXEEDED", "DEADLINE_EXCEEDED"),
        ("htpp_500", "500"),
        ("http_5xx", "5xx"),
        ("HTTP503", "503"),
        ("timout", "timeout"),
        ("conection_failed", "connection_failed"),
    ],
)
def test_a_slip_in_a_name_that_is_known_is_refused(matcher: str, meant: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_spelling("retry.retry_on", ["503", matcher])
    assert caught.value.field == "retry.retry_on[1]"
    assert caught.value.problem == f"{matcher!r} matches no failure; did you mean {meant}?"


def test_names_that_are_known_and_those_of_services_pass() -> None:
    own = ("503", "5xx", "http_503", "ValueError", "shop.ShopError", "TimeoutError", "QUOTA", "no_stock", "err_500")
    for matchers in (GRPC_CODES, OWN_CODES, own):
        assert check_spelling("retry.retry_on", matchers) == matchers
