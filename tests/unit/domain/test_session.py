"""Sessions of browsers: what is good, and what is not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.session import SESSION_LIFE, find_session, name_cookie, open_session

KEY, OTHER = b"k" * 32, b"o" * 32
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_session_is_good_until_it_ends() -> None:
    session = open_session(KEY, "17", at=NOW)
    assert session.until == NOW + SESSION_LIFE
    assert find_session(KEY, session.text, at=NOW) == session
    assert find_session(KEY, session.text, at=session.until - timedelta(microseconds=1)) == session
    assert find_session(KEY, session.text, at=session.until) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("17.", "18.", 1),
        lambda text: text.replace(".17", ".27", 1),
        lambda text: text[:-1],
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text + "A",
        lambda text: text.replace(".", "", 1),
        lambda text: "",
        lambda text: "٣" + text,
    ],
)
def test_what_is_changed_is_no_session(change: Callable[[str], str]) -> None:
    text = open_session(KEY, "17", at=NOW).text
    assert change(text) != text
    assert find_session(KEY, change(text), at=NOW) is None


def test_another_cluster_has_other_sessions_and_another_cookie() -> None:
    assert find_session(OTHER, open_session(KEY, "17", at=NOW).text, at=NOW) is None
    assert name_cookie(KEY) != name_cookie(OTHER)
    assert KEY.hex() not in name_cookie(KEY)


def test_the_text_is_not_shown_by_accident() -> None:
    session = open_session(KEY, "17", at=NOW)
    assert session.text not in repr(session)
