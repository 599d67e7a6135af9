"""A reign lasts as long as its term is trusted."""

from datetime import timedelta

import pytest

from rota.application.reign import Reign
from rota.domain.errors import FencedError
from rota.domain.term import Term
from tests.support.clock import FakeClock


def test_a_trusted_term_may_be_acted_on() -> None:
    term = Term(7, trusted_until=5.0)
    reign = Reign(term, FakeClock())
    reign.check()
    assert (reign.term, reign.number) == (term, 7)


def test_at_the_end_of_its_trust_nothing_may_be_done() -> None:
    clock = FakeClock()
    reign = Reign(Term(7, trusted_until=5.0), clock)
    clock.advance(timedelta(seconds=5))
    with pytest.raises(FencedError, match="term: 7 is stale"):
        _ = reign.term
    with pytest.raises(FencedError):
        reign.check()
    assert reign.number == 7


def test_a_renewal_extends_the_trust() -> None:
    clock = FakeClock()
    reign = Reign(Term(7, trusted_until=5.0), clock)
    reign.extend(Term(7, trusted_until=9.0))
    clock.advance(timedelta(seconds=8))
    reign.check()


def test_an_ended_reign_is_over_whatever_the_clock_says() -> None:
    reign = Reign(Term(7, trusted_until=5.0), FakeClock())
    reign.end()
    with pytest.raises(FencedError):
        reign.check()
