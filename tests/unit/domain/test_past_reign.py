"""What the audit log tells of reigns."""

from datetime import timedelta

from rota.domain.audit import AuditEntry
from rota.domain.ids import CLUSTER
from rota.domain.past_reign import LOST, RESIGNED, WON, Ending, reigns_of
from tests.support.builders import NOW, an_audit_entry

MINUTE = timedelta(minutes=1)


def told(action: str, term: int, *, node: str = "a", minutes: int = 0, detail: str = "") -> AuditEntry:
    at = NOW + minutes * MINUTE
    return an_audit_entry(tenant_id=CLUSTER, actor=node, action=action, object=str(term), at=at, detail=detail)


def test_a_reign_that_nobody_followed_goes_on() -> None:
    [reign] = reigns_of([told(WON, 1)])
    assert (reign.term, reign.node_id, reign.begun_at) == (1, "a", NOW)
    assert (reign.ended_at, reign.ending, reign.reason) == (None, None, "")


def test_a_leader_tells_how_its_reign_ended() -> None:
    entries = [
        told(LOST, 2, node="b", minutes=5, detail="the lease is over"),
        told(WON, 2, node="b", minutes=2),
        told(RESIGNED, 1, minutes=1),
        told(WON, 1),
    ]
    second, first = reigns_of(entries)
    assert (first.node_id, first.begun_at, first.ended_at, first.ending) == ("a", NOW, NOW + MINUTE, Ending.RESIGNED)
    assert (second.node_id, second.ended_at, second.ending) == ("b", NOW + 5 * MINUTE, Ending.LOST)
    assert second.reason == "the lease is over"


def test_a_reign_whose_end_nobody_told_was_over_when_the_next_began() -> None:
    _, first = reigns_of([told(WON, 2, node="b", minutes=3), told(WON, 1)])
    assert (first.ended_at, first.ending) == (NOW + 3 * MINUTE, Ending.SILENT)


def test_a_reign_is_over_though_the_beginning_of_the_next_one_is_not_on_record() -> None:
    _, first = reigns_of([told(LOST, 2, node="b", minutes=5), told(WON, 1)])
    assert (first.ended_at, first.ending) == (None, Ending.SILENT)


def test_a_late_word_of_the_leader_before_is_not_taken_for_the_new_ones() -> None:
    entries = [told(LOST, 1, minutes=2, detail="a newer term began"), told(WON, 2, node="b", minutes=1), told(WON, 1)]
    second, first = reigns_of(entries)
    assert (second.term, second.node_id, second.ending) == (2, "b", None)
    assert (first.term, first.node_id, first.ending) == (1, "a", Ending.LOST)


def test_of_a_reign_that_was_over_at_once_the_end_alone_is_known() -> None:
    [reign] = reigns_of([told(LOST, 1, detail="not renewed in time")])
    assert (reign.begun_at, reign.ended_at, reign.ending) == (None, NOW, Ending.LOST)


def test_what_names_no_term_is_passed_over() -> None:
    assert reigns_of([an_audit_entry(object="x")]) == []
