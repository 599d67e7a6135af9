"""Ordered faults come as ordered, and then no more."""

import pytest

from rota.domain.errors import RotaError, StoreUnavailableError
from rota.testing.faults import Fault, Faults


class Counter:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.count = 0

    async def increase(self, operation: str = "increase") -> int:
        return await self._faults.around(operation, self._increase, unavailable=StoreUnavailableError)

    async def _increase(self) -> int:
        self.count += 1
        return self.count


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def counter(faults: Faults) -> Counter:
    return Counter(faults)


async def test_without_a_plan_calls_go_through(counter: Counter) -> None:
    assert [await counter.increase() for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.EXECUTE_AND_TIMEOUT])
async def test_a_fault_keeps_the_call_from_happening(counter: Counter, faults: Faults, fault: Fault) -> None:
    faults.inject("increase", fault)
    with pytest.raises(RotaError, match=f"increase: {fault}") as told:
        await counter.increase()
    assert isinstance(told.value, StoreUnavailableError) is (fault is not Fault.REFUSED)
    assert counter.count == 0


async def test_a_lost_answer_hides_that_the_call_happened(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await counter.increase()
    assert counter.count == 1


async def test_a_fault_happens_as_often_as_planned(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.TIMEOUT, times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await counter.increase()
    assert await counter.increase() == 1


async def test_faults_come_in_the_order_they_were_planned(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.GONE)
    faults.inject("increase", Fault.DEADLOCK)
    with pytest.raises(StoreUnavailableError, match="gone"):
        await counter.increase()
    with pytest.raises(StoreUnavailableError, match="deadlock"):
        await counter.increase()


async def test_a_fault_strikes_its_operation_only(counter: Counter, faults: Faults) -> None:
    faults.inject("decrease", Fault.TIMEOUT)
    assert await counter.increase() == 1
    with pytest.raises(StoreUnavailableError):
        await counter.increase("decrease")


async def test_a_lasting_fault_ends_when_healed(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.GONE, times=None)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            await counter.increase()
    faults.heal()
    assert await counter.increase() == 1


async def test_healing_drops_what_was_planned(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.TIMEOUT, times=5)
    faults.heal()
    assert await counter.increase() == 1


async def test_what_has_not_happened_yet_is_pending(counter: Counter, faults: Faults) -> None:
    faults.inject("increase", Fault.TIMEOUT, times=2)
    assert faults.pending == {"increase": 2}
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await counter.increase()
    assert faults.pending == {}
