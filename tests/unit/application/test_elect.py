"""Elections: who leads, for how long, and how it ends."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.elect import ElectionSettings, Leadership
from rota.application.loop import FatalError
from rota.application.ports.coordinator import Election
from rota.application.reign import Reign
from rota.domain.errors import FencedError
from rota.domain.ids import NodeId
from rota.testing.faults import Fault
from rota.testing.virtual_time import VirtualClock
from tests.support.figures import Figures
from tests.support.pauses import Gate, GatedClock, GatedElection, GatedTerms, SlowElection
from tests.support.scene import Scene, a_scene
from tests.support.virtual import FixedChance, virtually

TTL = ElectionSettings().ttl.total_seconds()
MARGIN = ElectionSettings().margin.total_seconds()
ACT_EVERY = timedelta(milliseconds=100)


@dataclass
class Court:
    """What the leaders did: when, who, in which term."""

    clock: VirtualClock
    acts: list[tuple[float, str, int]] = field(default_factory=list)

    def lead(self, node: str, clock: VirtualClock | None = None) -> Callable[[Reign], Awaitable[None]]:
        async def act(reign: Reign) -> None:
            while True:
                self.acts.append((self.clock.monotonic(), node, reign.term.number))
                await (clock or self.clock).sleep(ACT_EVERY)

        return act

    def first_act(self, node: str, *, after: float = 0.0) -> float:
        return next(at for at, who, _ in self.acts if who == node and at >= after)

    def leaders(self) -> list[str]:
        return list(dict.fromkeys(who for _, who, _ in self.acts))

    def last_leader(self) -> str:
        return self.acts[-1][1]


def a_node(scene: Scene, name: str, *, figures: Figures | None = None) -> Leadership:
    return Leadership(
        election=scene.coordinator.election,
        terms=scene.store.terms,
        clock=scene.clock,
        random=FixedChance(0.99),  # the longest waits
        collector=figures or scene.figures,
        node_id=NodeId(name),
    )


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@virtually
async def test_the_only_node_leads_and_goes_on_leading() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(60)
    assert {number for _, _, number in court.acts} == {1}
    assert court.acts[-1][0] > 59
    assert scene.figures.gauge(metrics.LEADER) == 1
    assert scene.figures.count(metrics.ELECTIONS) == 1
    await stop(running)
    assert scene.figures.gauge(metrics.LEADER) == 0


@virtually
async def test_a_standby_does_not_lead_while_another_does() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    nodes = [asyncio.create_task(a_node(scene, name).run(court.lead(name))) for name in ("a", "b", "c")]
    await scene.pass_time(60)
    assert court.leaders() == ["a"]
    for node in nodes:
        await stop(node)


@virtually
async def test_a_silent_leader_is_followed_within_its_lease_and_two_seconds() -> None:
    scene, dying = await _two_views()
    court = Court(scene.clock)
    a = asyncio.create_task(a_node(dying, "a").run(court.lead("a")))
    await scene.pass_time(10)
    b = asyncio.create_task(a_node(scene, "b").run(court.lead("b")))
    await scene.pass_time(10)
    dying.faults.inject("election.resign", Fault.GONE)
    died_at = scene.clock.monotonic()
    await stop(a)
    await scene.pass_time(TTL + 2)
    assert court.first_act("b") - died_at <= TTL + 2
    assert dying.faults.pending == {}
    await stop(b)


@virtually
async def test_a_leader_that_stops_is_followed_within_a_second() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    a = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(5)
    b = asyncio.create_task(a_node(scene, "b").run(court.lead("b")))
    await scene.pass_time(5)
    stopped_at = scene.clock.monotonic()
    await stop(a)
    await scene.pass_time(2)
    assert court.first_act("b") - stopped_at <= 1
    await stop(b)


@virtually
async def test_the_duties_have_ended_before_the_lease_is_given_back() -> None:
    scene = await a_scene()
    leader_at_end: list[NodeId | None] = []
    refusals: list[FencedError] = []

    async def lead(reign: Reign) -> None:
        try:
            await scene.pass_time(1000)
        finally:
            await scene.pass_time(1)
            leader_at_end.append(await scene.actual.election.find_leader())
            try:
                reign.check()
            except FencedError as exc:
                refusals.append(exc)

    running = asyncio.create_task(a_node(scene, "a").run(lead))
    await scene.pass_time(5)
    await stop(running)
    assert leader_at_end == ["a"]
    assert len(refusals) == 1, "whoever still acts must be refused"
    assert await scene.actual.election.find_leader() is None


@virtually
async def test_duties_that_do_not_stop_end_the_process_and_the_lease_is_given_back() -> None:
    scene = await a_scene()
    released = asyncio.Event()

    async def lead(_: Reign) -> None:
        try:
            await scene.pass_time(1000)
        finally:
            await released.wait()

    running = asyncio.create_task(a_node(scene, "a").run(lead))
    await scene.pass_time(5)
    running.cancel()
    with pytest.raises(FatalError, match="did not stop"):
        await running
    assert await scene.actual.election.find_leader() is None
    released.set()


@virtually
async def test_a_resignation_that_hangs_does_not_hold_up_the_stop() -> None:
    scene = await a_scene()
    never = asyncio.Event()

    class Hanging(GatedElection):
        async def resign(self, node_id: NodeId, lease: int) -> None:
            await never.wait()

    node = _replaced(scene, "a", election=Hanging(scene.actual.election, Gate()))
    running = asyncio.create_task(node.run(Court(scene.clock).lead("a")))
    await scene.pass_time(5)
    before = scene.clock.monotonic()
    await stop(running)
    assert scene.clock.monotonic() - before <= ElectionSettings().stop_within.total_seconds() + 0.1


@virtually
async def test_without_the_store_a_leader_steps_down_although_the_coordinator_renews() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(10)
    scene.faults.inject("terms.confirm", Fault.TIMEOUT, times=None)
    scene.faults.inject("terms.begin", Fault.TIMEOUT, times=None)
    cut_at = scene.clock.monotonic()
    await scene.pass_time(30)
    assert court.acts[-1][0] - cut_at <= TTL
    assert scene.figures.gauge(metrics.LEADER) == 0
    scene.faults.heal()
    await scene.pass_time(10)
    assert court.acts[-1][2] == 2
    await stop(running)


@virtually
async def test_without_the_coordinator_a_leader_steps_down() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(10)
    for operation in ("election.renew", "election.campaign", "election.resign"):
        scene.faults.inject(operation, Fault.TIMEOUT, times=None)
    await scene.pass_time(30)
    assert court.acts[-1][0] - 10 <= TTL
    await stop(running)


@virtually
@pytest.mark.parametrize("operation", ["election.renew", "terms.confirm"])
@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT])
async def test_a_leader_that_misses_one_answer_goes_on_leading(operation: str, fault: Fault) -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(5)
    scene.faults.inject(operation, fault, times=1)
    await scene.pass_time(10)
    assert {number for _, _, number in court.acts} == {1}
    await stop(running)


@virtually
async def test_a_leader_that_misses_two_answers_in_a_row_steps_down() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(5)
    scene.faults.inject("election.renew", Fault.TIMEOUT, times=2)
    await scene.pass_time(10)
    assert list(dict.fromkeys(number for _, _, number in court.acts)) == [1, 2]
    await stop(running)


@virtually
async def test_a_leader_whose_lease_was_forgotten_steps_down_at_its_next_renewal() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    a = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(5)
    b = asyncio.create_task(a_node(scene, "b").run(court.lead("b")))
    await scene.pass_time(5)
    scene.memory.forget()
    await scene.pass_time(10)
    last_act_of_a = max(at for at, who, _ in court.acts if who == "a")
    assert last_act_of_a - 10 <= ElectionSettings().renew_every.total_seconds()
    assert court.last_leader() == "b"
    await stop(a)
    await stop(b)


@virtually
async def test_a_leader_steps_down_when_a_newer_term_began() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(5)
    await scene.actual_store.terms.begin(NodeId("somebody"))
    await scene.pass_time(10)
    assert list(dict.fromkeys(number for _, _, number in court.acts)) == [1, 3]
    await stop(running)


@virtually
async def test_a_renewal_that_hangs_ends_the_reign_when_the_trust_does() -> None:
    scene = await a_scene()
    gate = Gate()
    node = _replaced(scene, "a", election=GatedElection(scene.actual.election, gate))
    rest = _Rest(scene.clock)
    running = asyncio.create_task(node.run(rest))
    await scene.pass_time(9)
    gate.close()
    await scene.pass_time(30)
    assert 9 < rest.ended_at[0] <= 8 + TTL - MARGIN
    assert scene.figures.gauge(metrics.LEADER) == 0
    gate.open()
    await stop(running)


@virtually
async def test_a_slow_renewal_does_not_stretch_the_trust() -> None:
    scene = await a_scene()
    slow = SlowElection(scene.actual.election, Gate(), clock=scene.clock, renewals=[2.5, 1000])
    rest = _Rest(scene.clock)
    running = asyncio.create_task(_replaced(scene, "a", election=slow).run(rest))
    await scene.pass_time(15)
    assert rest.ended_at == [pytest.approx(2 + TTL - MARGIN, abs=0.01)]  # asked at 2 s, answered at 4.5 s
    await stop(running)


@virtually
async def test_a_slow_campaign_does_not_stretch_the_trust() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    slow = SlowElection(scene.actual.election, Gate(), clock=scene.clock, campaigns=[TTL + 3])
    a = asyncio.create_task(_replaced(scene, "a", election=slow).run(court.lead("a")))
    await scene.pass_time(1)
    b = asyncio.create_task(a_node(scene, "b", figures=Figures()).run(court.lead("b")))
    await scene.pass_time(30)
    assert court.leaders() == ["b"]
    await stop(a)
    await stop(b)


@virtually
async def test_a_node_that_never_hears_of_its_campaigns_keeps_nobody_from_leading() -> None:
    deaf, scene = await _two_views()
    court = Court(scene.clock)
    deaf.faults.inject("election.campaign", Fault.EXECUTE_AND_TIMEOUT, times=None)
    a = asyncio.create_task(a_node(deaf, "a").run(court.lead("a")))
    await scene.pass_time(0.01)
    b = asyncio.create_task(a_node(scene, "b").run(court.lead("b")))
    await scene.pass_time(3 * TTL)
    assert court.first_act("b") <= 3 * TTL
    await stop(a)
    await stop(b)


@virtually
async def test_a_lost_answer_to_a_campaign_costs_one_lease() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    scene.faults.inject("election.campaign", Fault.EXECUTE_AND_TIMEOUT)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(TTL + 2)
    assert TTL <= court.first_act("a") <= TTL + 2
    await stop(running)


@virtually
async def test_a_node_that_cannot_begin_a_term_gives_its_lease_back_at_once() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    scene.faults.inject("terms.begin", Fault.GONE)
    running = asyncio.create_task(a_node(scene, "a").run(court.lead("a")))
    await scene.pass_time(1)
    assert court.acts
    assert scene.figures.count(metrics.LOOP_FAILURES, "elect") == 1
    await stop(running)


@virtually
async def test_when_the_duties_end_or_fail_the_lease_is_given_back_and_won_again() -> None:
    scene = await a_scene()
    terms: list[int] = []

    async def lead(reign: Reign) -> None:
        terms.append(reign.term.number)
        await scene.pass_time(1)
        if len(terms) == 1:
            raise RuntimeError("broken")
        if len(terms) == 2:
            raise asyncio.CancelledError
        if len(terms) == 4:
            await scene.pass_time(1000)

    running = asyncio.create_task(a_node(scene, "a").run(lead))
    await scene.pass_time(10)
    assert terms == [1, 2, 3, 4]
    assert scene.figures.count(metrics.LOOP_FAILURES, "elect") == 1
    await stop(running)


@virtually
async def test_a_fatal_error_in_the_duties_ends_the_election_and_the_lease() -> None:
    scene = await a_scene()

    async def lead(_: Reign) -> None:
        raise FatalError("no way on")

    with pytest.raises(FatalError, match="no way on"):
        await a_node(scene, "a").run(lead)
    assert await scene.actual.election.find_leader() is None


@virtually
async def test_duties_that_fail_while_they_stop_do_not_hold_up_the_stop() -> None:
    scene = await a_scene()

    async def lead(_: Reign) -> None:
        try:
            await scene.pass_time(1000)
        finally:
            raise RuntimeError("broken")

    running = asyncio.create_task(a_node(scene, "a").run(lead))
    await scene.pass_time(1)
    await stop(running)
    assert await scene.actual.election.find_leader() is None


@virtually
async def test_a_node_that_was_paused_past_its_trust_acts_on_nothing_afterwards() -> None:
    scene = await a_scene()
    court = Court(scene.clock)
    gate = Gate()
    paused = _paused_node(scene, "a", gate=gate)
    a = asyncio.create_task(paused.run(court.lead("a", GatedClock(scene.clock, gate))))
    await scene.pass_time(5)
    b = asyncio.create_task(a_node(scene, "b", figures=Figures()).run(court.lead("b")))
    await scene.pass_time(5)
    gate.close()
    await scene.pass_time(TTL + 2)
    acts = [act for act in court.acts if act[1] == "a"]
    gate.open()
    await scene.pass_time(30)
    assert [act for act in court.acts if act[1] == "a"] == acts
    assert court.last_leader() == "b"
    await stop(a)
    await stop(b)


@pytest.mark.parametrize("seed", range(10))
def test_two_nodes_never_lead_at_once_however_they_are_paused(seed: int) -> None:
    @virtually
    async def story() -> None:
        scene = await a_scene()
        court, chance = Court(scene.clock), random.Random(seed)
        gates = {name: Gate() for name in ("a", "b", "c")}
        nodes = [
            asyncio.create_task(
                _paused_node(scene, name, gate=gate).run(court.lead(name, GatedClock(scene.clock, gate)))
            )
            for name, gate in gates.items()
        ]
        for _ in range(60):
            gate = chance.choice(list(gates.values()))
            gate.close()
            await scene.pass_time(chance.uniform(0, 12))
            gate.open()
            await scene.pass_time(chance.uniform(0, 2))
        await scene.pass_time(20)
        assert_terms_only_grow(court)
        assert len({number for _, _, number in court.acts}) > 3
        assert court.acts[-1][0] > scene.clock.monotonic() - 1
        for node in nodes:
            await stop(node)

    story()


def assert_terms_only_grow(court: Court) -> None:
    """Once a newer leader has acted, no older one does: at no moment are there two."""
    numbers = [number for _, _, number in court.acts]
    assert numbers == sorted(numbers)


async def _two_views() -> tuple[Scene, Scene]:
    """One cluster, seen by two nodes whose calls fail independently."""
    one = await a_scene()
    return one, Scene(store=one.actual_store, coordinator=one.memory, clock=one.clock)


class _Rest:
    """Duties that ask for nothing: only the election can end them."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.ended_at: list[float] = []

    async def __call__(self, _: Reign) -> None:
        try:
            await self._clock.sleep(timedelta(days=1))
        finally:
            self.ended_at.append(self._clock.monotonic())


def _replaced(scene: Scene, name: str, *, election: Election) -> Leadership:
    return Leadership(
        election=election,
        terms=scene.store.terms,
        clock=scene.clock,
        random=FixedChance(),
        collector=scene.figures,
        node_id=NodeId(name),
    )


def _paused_node(scene: Scene, name: str, *, gate: Gate) -> Leadership:
    return Leadership(
        election=GatedElection(scene.actual.election, gate),
        terms=GatedTerms(scene.actual_store.terms, gate),
        clock=GatedClock(scene.clock, gate),
        random=FixedChance(),
        collector=Figures(),
        node_id=NodeId(name),
    )
