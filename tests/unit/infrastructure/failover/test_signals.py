"""Cancel requests and events, while processes see different sides."""

from datetime import timedelta

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.testing.contract.coordinator_backend import (
    LONG,
    NOON,
    hear,
    make_ids,
)
from rota.testing.virtual_time import run_virtually
from tests.unit.infrastructure.failover.cluster import Cluster, switch_back, switch_over


def make_event(kind: EventKind) -> Event:
    return Event(kind=kind, at=NOON, task_id=make_ids(1)[0])


class TestSignals:
    def test_a_cancel_request_reaches_a_worker_on_the_other_side(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, cluster.start() as worker:
                await switch_over(worker)
                await api.node.signals.request_cancel(make_ids(1), ttl=LONG)
                assert await worker.node.signals.find_cancelled(make_ids(2)) == set(make_ids(1))

        run_virtually(main())

    def test_for_a_minute_after_a_switch_the_requests_of_both_sides_are_found(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as worker:
                await switch_over(worker)
                await worker.node.signals.request_cancel(make_ids(1), ttl=timedelta(hours=1))
                await switch_back(cluster, worker)
                assert await worker.node.signals.find_cancelled(make_ids(1)) == set(make_ids(1))
                await cluster.pass_time(60)
                asked = worker.fallback_way.calls
                await worker.node.signals.find_cancelled(make_ids(1))
                assert worker.fallback_way.calls == asked

        run_virtually(main())

    def test_a_listener_hears_both_sides(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, cluster.start() as worker, api.node.signals.subscribe() as events:
                await worker.node.signals.publish([make_event(EventKind.TASK_CREATED)])
                assert (await hear(events)).kind is EventKind.TASK_CREATED
                await switch_over(worker)
                await worker.node.signals.publish([make_event(EventKind.TASK_COMPLETED)])
                assert (await hear(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    @pytest.mark.parametrize("lost", ["primary", "fallback"])
    def test_a_listener_survives_the_loss_of_one_side_and_hears_it_again(self, lost: str) -> None:
        async def main() -> None:
            cluster = Cluster()
            states = {"primary": cluster.primary, "fallback": cluster.fallback}
            state = states.pop(lost)
            (other,) = states.values()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(state)
                await join_memory(other).signals.publish([make_event(EventKind.TASK_CREATED)])
                assert (await hear(events)).kind is EventKind.TASK_CREATED
                await cluster.pass_time(2)
                assert (await anext(events)).event is None, "it cannot know what was published there meanwhile"
                await join_memory(state).signals.publish([make_event(EventKind.TASK_COMPLETED)])
                assert (await hear(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    @pytest.mark.parametrize("lost", ["primary", "fallback"])
    def test_what_was_published_while_one_side_was_lost_is_heard_later(self, lost: str) -> None:
        async def main() -> None:
            cluster = Cluster()
            state = {"primary": cluster.primary, "fallback": cluster.fallback}[lost]
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                await join_memory(state).signals.publish([make_event(EventKind.TASK_CREATED)])
                assert (await hear(events)).kind is EventKind.TASK_CREATED
                _hang_up(state)
                await cluster.pass_time(0.5)
                await join_memory(state).signals.publish([make_event(EventKind.TASK_COMPLETED)])
                await cluster.pass_time(2)
                assert (await hear(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    def test_who_comes_back_goes_on_with_both_sides(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            sides = [join_memory(state).signals for state in (cluster.primary, cluster.fallback)]
            async with cluster.start() as api:
                async with api.node.signals.subscribe() as events:
                    for side in sides:
                        await side.publish([make_event(EventKind.TASK_CREATED)])
                    told = [await anext(events) for _ in sides][-1]
                for side in sides:
                    await side.publish([make_event(EventKind.TASK_COMPLETED)])
                async with api.node.signals.subscribe(after=told.id) as events:
                    assert [(await hear(events)).kind for _ in sides] == [EventKind.TASK_COMPLETED] * 2

        run_virtually(main())

    def test_who_comes_back_after_a_switch_is_told_that_some_were_missed(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api:
                async with api.node.signals.subscribe() as events:
                    await api.node.signals.publish([make_event(EventKind.TASK_CREATED)])
                    told = await anext(events)
                await switch_over(api)
                async with api.node.signals.subscribe(after=told.id) as events:
                    await api.node.signals.publish([make_event(EventKind.TASK_COMPLETED)])
                    assert (await anext(events)).event is None
                    assert (await hear(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    def test_a_listener_is_told_when_both_sides_are_lost(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(cluster.primary)
                _hang_up(cluster.fallback)
                with pytest.raises(CoordinatorUnavailableError):
                    await anext(events)

        run_virtually(main())

    def test_an_unforeseen_failure_reaches_the_listener(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(cluster.primary, ValueError("a bug"))
                with pytest.raises(ValueError, match="a bug"):
                    await anext(events)

        run_virtually(main())

    def test_listening_begins_while_the_primary_is_away(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api:
                api.primary_way.begin()
                for _ in range(2):  # the first finds out, the second knows
                    async with api.node.signals.subscribe() as events:
                        await api.node.signals.publish([make_event(EventKind.TASK_CREATED)])
                        assert (await hear(events)).kind is EventKind.TASK_CREATED

        run_virtually(main())

    def test_listening_does_not_begin_when_both_are_away(self) -> None:
        async def main() -> None:
            async with Cluster().start() as api:
                api.primary_way.begin()
                api.fallback_way.begin()
                with pytest.raises(CoordinatorUnavailableError):
                    async with api.node.signals.subscribe():
                        pass

        run_virtually(main())


def _hang_up(state: MemoryState, failure: Exception | None = None) -> None:
    for listener in state.listeners:
        listener.fail(failure or CoordinatorUnavailableError("hung up"))
