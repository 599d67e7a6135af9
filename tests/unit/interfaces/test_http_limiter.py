"""How many requests a caller may make."""

from datetime import timedelta

import pytest

from rota.domain.errors import RateLimitedError
from rota.interfaces.http import limiter
from rota.interfaces.http.limiter import RateLimiter
from tests.support.clock import FakeClock


def drain(limiter: RateLimiter, caller: str) -> int:
    number = 0
    while number < 1000:
        try:
            limiter.take(caller)
        except RateLimitedError:
            break
        number += 1
    return number


def test_twice_the_rate_may_come_at_once_and_then_the_rate() -> None:
    clock = FakeClock()
    made = RateLimiter(clock, 10)
    assert drain(made, "a") == 20
    clock.advance(timedelta(seconds=1))
    assert drain(made, "a") == 10


def test_whoever_is_refused_is_told_when_to_come_back() -> None:
    made = RateLimiter(FakeClock(), 0.5)
    assert drain(made, "a") == 1
    with pytest.raises(RateLimitedError) as caught:
        made.take("a")
    assert caught.value.retry_after >= timedelta(seconds=2)


def test_callers_do_not_share() -> None:
    made = RateLimiter(FakeClock(), 1)
    assert drain(made, "a") == drain(made, "b") == 2


def test_no_rate_is_no_limit() -> None:
    assert drain(RateLimiter(FakeClock(), None), "a") == 1000


def test_another_rate_counts_from_now_on() -> None:
    made = RateLimiter(FakeClock(), 1)
    drain(made, "a")
    made.tune(1)
    assert drain(made, "a") == 0
    made.tune(5)
    assert drain(made, "a") == 10


def test_callers_beyond_a_bound_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "MOST_CALLERS", 2)
    made = RateLimiter(FakeClock(), 1)
    for caller in "abc":
        drain(made, caller)
    assert drain(made, "c") == 0
    assert drain(made, "a") == 2, "a was the first, so it begins anew"
