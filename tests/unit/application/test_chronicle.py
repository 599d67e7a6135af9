"""The record of reigns: what leaders write, and what is read from it."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.chronicle import MOST_REIGNS, Chronicle, ReadChronicle
from rota.application.elect import Leadership
from rota.application.reign import Reign
from rota.domain.errors import InvalidError, RotaError
from rota.domain.ids import CLUSTER, DEFAULT_TENANT, NodeId
from rota.domain.past_reign import WON, Ending, PastReign
from rota.domain.term import Term
from rota.testing.faults import Fault
from tests.support.virtual import Bench, FixedChance, a_bench, virtually


def a_reign(bench: Bench, number: int = 1) -> Reign:
    return Reign(Term(number, trusted_until=float("inf")), bench.clock)


async def told(bench: Bench, limit: int = 20) -> list[PastReign]:
    return await ReadChronicle(bench.node.store.audit).list_reigns(limit)


@virtually
async def test_a_reign_is_on_record_from_its_beginning_to_its_end() -> None:
    bench = await a_bench("a")
    chronicle, reign, begun_at = Chronicle(bench.node), a_reign(bench, 7), bench.clock.now()
    note = chronicle.beginning(reign)
    await bench.clock.sleep(timedelta(seconds=0.5))
    await note()
    [leads] = await told(bench)
    assert (leads.term, leads.node_id, leads.begun_at, leads.ending) == (7, "a", begun_at, None)
    await bench.clock.sleep(timedelta(seconds=30))
    reign.end("the lease is over")
    await chronicle.end(reign)
    [lost] = await told(bench)
    assert (lost.ended_at, lost.ending, lost.reason) == (bench.clock.now(), Ending.LOST, "the lease is over")
    assert lost.begun_at == begun_at


@virtually
async def test_a_node_that_stops_resigns() -> None:
    bench = await a_bench()
    reign = a_reign(bench)
    reign.end()
    await Chronicle(bench.node).end(reign)
    [resigned] = await told(bench)
    assert (resigned.ending, resigned.reason) == (Ending.RESIGNED, "")


@virtually
async def test_a_beginning_is_noted_once_however_often_it_is_tried() -> None:
    bench = await a_bench()
    note = Chronicle(bench.node).beginning(a_reign(bench))
    bench.faults.inject("audit.add", Fault.GONE)
    bench.faults.inject("audit.add", Fault.EXECUTE_AND_TIMEOUT)
    for _ in range(4):
        await note()
    assert bench.faults.pending == {}
    assert [entry.action for entry in await bench.node.store.audit.list_page(CLUSTER)] == [WON]
    assert await bench.node.store.audit.list_page(DEFAULT_TENANT) == []


@virtually
async def test_an_end_that_cannot_be_noted_is_left_out() -> None:
    bench = await a_bench()
    await Chronicle(bench.node).beginning(a_reign(bench))()
    bench.faults.inject("audit.add", Fault.GONE)
    await Chronicle(bench.node).end(a_reign(bench))
    assert [reign.ending for reign in await told(bench)] == [None]


@virtually
async def test_what_the_store_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await a_bench()

    async def refuse(_: object) -> None:
        raise RotaError("the right to write into this table is missing")

    monkeypatch.setattr(bench.node.store.audit, "add", refuse)
    await Chronicle(bench.node).beginning(a_reign(bench))()
    await Chronicle(bench.node).end(a_reign(bench))
    assert await told(bench) == []


@virtually
async def test_the_newest_reigns_are_read_and_no_more_than_were_asked_for() -> None:
    bench = await a_bench()
    for number in range(1, 8):
        reign = a_reign(bench, number)
        await Chronicle(bench.node).beginning(reign)()
        await Chronicle(bench.node).end(reign)
    found = await told(bench, 3)
    assert [(reign.term, reign.begun_at is not None, reign.ending) for reign in found] == [
        (number, True, Ending.RESIGNED) for number in (7, 6, 5)
    ]
    assert len(await told(bench, MOST_REIGNS)) == 7
    with pytest.raises(InvalidError, match=r"^limit: "):
        await told(bench, MOST_REIGNS + 1)


@virtually
async def test_leaders_tell_of_their_ends_when_the_lease_is_given_back() -> None:
    bench = await a_bench("a")
    free: list[bool] = []

    async def on_end(reign: Reign) -> None:
        free.append(await bench.node.coordinator.election.find_leader() is None)
        await Chronicle(bench.node).end(reign)

    async def lead(reign: Reign) -> None:
        await Chronicle(bench.node).beginning(reign)()
        if reign.number > 1:
            await asyncio.Event().wait()

    leadership = Leadership(
        election=bench.node.coordinator.election,
        terms=bench.node.store.terms,
        clock=bench.clock,
        random=FixedChance(),
        collector=bench.node.collector,
        node_id=NodeId("a"),
        on_end=on_end,
    )
    running = asyncio.create_task(leadership.run(lead))
    await bench.clock.sleep(timedelta(seconds=5))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    second, first = await told(bench)
    assert (first.ending, first.reason) == (Ending.LOST, "its duties ended")
    assert (second.ending, second.reason) == (Ending.RESIGNED, "")
    assert free == [True, True]
