"""What may have been meant by a name that is not known."""

import pytest

from rota.domain.spelling import hint

KNOWN = ("timeout_seconds", "UNAVAILABLE", "bad", "add")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("timeout", "did you mean timeout_seconds?"),
        ("unavalable", "did you mean UNAVAILABLE?"),
        ("ad", "did you mean add?"),
        ("zzz", "known are timeout_seconds, UNAVAILABLE, bad, add"),
        ("z" * 10_000, "known are timeout_seconds, UNAVAILABLE, bad, add"),
    ],
)
def test_a_name_that_is_near_is_suggested_else_all_are_listed(given: str, told: str) -> None:
    assert hint(given, KNOWN) == told
