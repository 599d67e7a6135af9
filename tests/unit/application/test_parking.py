"""The lines of parked tasks, and how far they are looked into."""

from rota.application.parking import Key, Parking, key_of
from rota.domain.ids import TaskId
from rota.domain.waiting import Reason
from tests.support.builders import EMAIL, NOW, SECOND, a_live_task, a_state

MOST = 6
MAIL: Key = key_of(a_live_task(type=EMAIL))
REPORT: Key = key_of(a_live_task(type="report"))


def a_parking(*, mails: int, reports: int = 0) -> Parking:
    """Mails from 1 on, reports from 101 on; all reports are behind all mails."""
    parking = Parking(1000)
    for key, first, number in ((MAIL, 1, mails), (REPORT, 101, reports)):
        for task_id in range(first, first + number):
            park(parking, task_id, key=key)
    return parking


def park(parking: Parking, task_id: int, *, key: Key = MAIL) -> None:
    state = a_state(task_id, due_at=NOW + task_id * SECOND)
    parking.park(a_live_task(task_id, state=state, type=key[1]), Reason.TYPE_LIMIT)


def look(parking: Parking, places: dict[Key, int], *, limit: int = MOST, able: tuple[int, ...] = ()) -> list[int]:
    """Which ones are looked at; those that are not able leave."""
    seen = [task_id for _, task_id in parking.first(places, limit, most=MOST)]
    parking.note(seen, able=[TaskId(task_id) for task_id in able])
    for task_id in set(seen).difference(able):
        parking.discard(task_id)
    return list(seen)


def test_of_each_line_as_many_are_looked_at_as_have_places() -> None:
    parking = a_parking(mails=9, reports=9)
    assert look(parking, {MAIL: 1, REPORT: 2}, able=(1, 101, 102)) == [1, 101, 102]
    assert look(parking, {MAIL: 1, REPORT: 2}, limit=2, able=(1, 101)) == [1, 101]


def test_twice_as_many_are_looked_at_until_one_is_able() -> None:
    parking = a_parking(mails=30)
    one = {MAIL: 1}
    assert look(parking, one) == [1]
    assert look(parking, one) == [2, 3]
    assert look(parking, one, limit=1) == [4, 5, 6, 7], "also where there is room for one alone"
    assert look(parking, one, able=(13,)) == [8, 9, 10, 11, 12, 13], "no more than the most"
    assert look(parking, one, able=(13,)) == [13]


def test_a_line_whose_first_ones_are_able_is_looked_at_as_before_beside_one_that_is_not() -> None:
    parking = a_parking(mails=3, reports=9)
    both = {MAIL: 1, REPORT: 1}
    assert look(parking, both, able=(101,)) == [1, 101]
    assert look(parking, both, able=(101,)) == [2, 3, 101]
    assert look(parking, {REPORT: 1}, able=(101,)) == [101]


def test_a_line_that_begins_anew_is_looked_at_as_any_other() -> None:
    parking = a_parking(mails=1)
    look(parking, {MAIL: 1})
    for task_id in (1, 2):
        park(parking, task_id)
    assert look(parking, {MAIL: 1}) == [1]
