"""What the id of an event looks like."""

import pytest

from rota.domain.errors import InvalidError
from rota.domain.events import check_event_id


@pytest.mark.parametrize(
    "text", ["m17", "s0", "r17-1767268800250000", "e17-1000000000", "r1-2~s3", "r1-2~", "~s3", "~"]
)
def test_an_id_as_some_coordinator_makes_it_is_one(text: str) -> None:
    assert check_event_id("after", text) == text


@pytest.mark.parametrize("text", ["zzz", "17", "m-1", "M17", "m17 ", "m1~s2~r3", "m٣", "m17\n"])
def test_any_other_text_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(InvalidError, match="is not the id of an event, such as m17 or r17-") as raised:
        check_event_id("after", text)
    assert raised.value.field == "after"
