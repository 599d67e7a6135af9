"""Submitting: nothing acknowledged is lost, and nothing bad is written."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.audit import Actor
from rota.application.steer import SteerTasks
from rota.application.submit import MOST_AT_ONCE, MOST_ERRORS, SLICE, SubmitTasks
from rota.domain.errors import (
    IdempotencyMismatchError,
    IllegalTransitionError,
    InvalidError,
    NotFoundError,
    StoreUnavailableError,
)
from rota.domain.events import EventKind
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.priority import LEVELS
from rota.domain.task import PENDING
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, HOUR, a_config, a_submission
from tests.support.virtual import Bench, a_bench, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada", address="192.0.2.7")


async def a_desk() -> tuple[Bench, SubmitTasks]:
    """A node that knows how to send email, and its desk for submissions."""
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    return bench, SubmitTasks(bench.node)


async def ready(bench: Bench) -> list[int]:
    return list((await bench.node.coordinator.queue.take(10_000, order=LEVELS)).task_ids)


async def recorded(bench: Bench) -> list[tuple[str, str, str]]:
    """What somebody did to what, oldest first."""
    entries = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    return [(entry.actor, entry.action, entry.object) for entry in entries[::-1]]


@virtually
async def test_a_submitted_task_is_stored_and_queued() -> None:
    bench, desk = await a_desk()
    added = await desk.submit(a_submission(payload={"to": "ada"}))
    task = await bench.node.store.tasks.find(added.task_id, DEFAULT_TENANT)
    assert task is not None
    assert (task.state.status, task.spec.payload) == (PENDING, '{"to":"ada"}')
    assert await ready(bench) == [added.task_id]


@virtually
async def test_listeners_hear_of_it() -> None:
    bench, desk = await a_desk()
    async with bench.node.coordinator.signals.subscribe() as events:
        added = await desk.submit(a_submission())
        event = await hear(events)
    assert (event.kind, event.task_id, event.task_type) == (EventKind.TASK_CREATED, added.task_id, EMAIL)


@virtually
async def test_a_delayed_task_is_not_ready_before_its_time() -> None:
    bench, desk = await a_desk()
    await desk.submit(a_submission(delay=HOUR))
    assert await ready(bench) == []
    move = await bench.node.coordinator.queue.move_due(bench.clock.now() + HOUR, 10)
    assert move.moved == 1


@virtually
async def test_a_task_is_accepted_though_the_queue_is_away() -> None:
    bench, desk = await a_desk()
    bench.faults.inject("queue.push", Fault.TIMEOUT)
    added = await desk.submit(a_submission())
    assert await bench.node.store.tasks.find(added.task_id, DEFAULT_TENANT) is not None


@virtually
async def test_when_the_store_is_away_nothing_is_acknowledged() -> None:
    bench, desk = await a_desk()
    bench.faults.inject("tasks.add", Fault.TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await desk.submit(a_submission())
    assert await ready(bench) == []


@virtually
async def test_an_unknown_type_is_refused_and_changes_nothing() -> None:
    bench, desk = await a_desk()
    with pytest.raises(InvalidError, match="no task config"):
        await desk.submit(a_submission(type="unheard"))
    assert await bench.node.store.tasks.count_by_status(DEFAULT_TENANT) == {}


@virtually
async def test_a_repeated_key_yields_the_first_task_and_queues_nothing_new() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission(idempotency_key="order-1"))
    second = await desk.submit(a_submission(idempotency_key="order-1"))
    assert (second.task_id, second.is_repeat) == (first.task_id, True)
    assert await ready(bench) == [first.task_id]


@virtually
async def test_a_mismatch_of_one_key_does_not_touch_the_others_in_its_group() -> None:
    _, desk = await a_desk()
    await desk.submit(a_submission(idempotency_key="order-1", name="first"))
    wishes = [a_submission(name=f"task {number}") for number in range(5)]
    wishes.insert(2, a_submission(idempotency_key="order-1", name="another"))
    answers = await asyncio.gather(*map(desk.submit, wishes), return_exceptions=True)
    assert [isinstance(answer, IdempotencyMismatchError) for answer in answers] == [False, False, True] + [False] * 3


@virtually
async def test_many_are_added_all_or_none_and_the_error_names_the_place() -> None:
    bench, desk = await a_desk()
    with pytest.raises(InvalidError) as caught:
        await desk.submit_many([a_submission(), a_submission(priority=10)])
    assert caught.value.field == "tasks[1].priority"
    assert await bench.node.store.tasks.count_by_status(DEFAULT_TENANT) == {}
    added = await desk.submit_many([a_submission(), a_submission()])
    assert await ready(bench) == [answer.task_id for answer in added]


@virtually
async def test_while_many_are_composed_others_get_their_turn() -> None:
    bench, desk = await a_desk()
    turns = 0

    async def beside() -> None:
        nonlocal turns
        while True:
            turns += 1
            await bench.clock.sleep(timedelta(0))

    other = asyncio.create_task(beside())
    await desk.submit_many([a_submission()] * SLICE)  # the configs, the store and the queue are here without a wait
    few, turns = turns, 0
    await desk.submit_many([a_submission()] * 4 * SLICE)
    other.cancel()
    assert turns >= few + 3


@virtually
async def test_too_many_at_once_are_refused() -> None:
    _, desk = await a_desk()
    with pytest.raises(InvalidError, match="at most"):
        await desk.submit_many([a_submission()] * (MOST_AT_ONCE + 1))


@virtually
async def test_a_rerun_is_a_new_task_linked_to_the_old_one() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission(payload={"to": "ada"}, priority=7))
    tasks = bench.node.store.tasks
    task = (await tasks.load([first.task_id]))[first.task_id]
    said = r"^task \d+ is PENDING and has not ended; wait for its end, cancel it, or run it again with another payload$"
    with pytest.raises(IllegalTransitionError, match=said):
        await desk.rerun(task)
    await tasks.advance([task.state.cancelled("", at=bench.clock.now())])
    ended = (await tasks.load([first.task_id]))[first.task_id]
    added = await desk.rerun(ended)
    again = (await tasks.load([added.task_id]))[added.task_id]
    assert (again.spec.rerun_of, again.spec.payload, again.state.priority) == (first.task_id, '{"to":"ada"}', 7)
    await desk.close()


@virtually
async def test_any_task_is_run_again_with_other_input() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission(payload={"to": "ada"}, priority=7))
    task = (await bench.node.store.tasks.load([first.task_id]))[first.task_id]
    again = await desk.rerun(task, payload={"to": "bob", "n": 1}, key="one", actor=ADA)
    assert (again.task.spec.rerun_of, again.task.spec.payload) == (first.task_id, '{"to":"bob","n":1}')
    assert again.task.state.priority == 7
    repeat = await desk.rerun(task, payload={"n": 1, "to": "bob"}, key="one")
    assert (repeat.task_id, repeat.is_repeat) == (again.task_id, True)
    with pytest.raises(IdempotencyMismatchError):
        await desk.rerun(task, payload={"to": "eve"}, key="one")
    with pytest.raises(InvalidError, match="payload"):
        await desk.rerun(task, payload=[1])
    [entry] = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert entry.detail == f"as task {again.task_id}, with other input"


@virtually
async def test_other_input_of_a_type_that_is_disabled_is_refused_and_a_repeat_is_not() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission())
    await SteerTasks(bench.node).cancel(first.task_id, DEFAULT_TENANT)
    task = (await bench.node.store.tasks.load([first.task_id]))[first.task_id]
    await bench.node.store.configs.put(a_config(is_enabled=False))
    await bench.clock.sleep(timedelta(seconds=10))
    with pytest.raises(InvalidError, match=r"^type: .* is disabled; resume it first"):
        await desk.rerun(task, payload={})
    assert (await desk.rerun(task)).task.spec.rerun_of == first.task_id


@virtually
async def test_input_of_a_type_that_is_gone_is_taken_as_it_is() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission())
    task = (await bench.node.store.tasks.load([first.task_id]))[first.task_id]
    await bench.node.store.configs.delete(DEFAULT_TENANT, EMAIL)
    await bench.clock.sleep(timedelta(seconds=10))
    assert (await desk.rerun(task, payload=[1])).task.spec.payload == "[1]"


@virtually
async def test_the_record_of_a_task_leads_to_those_that_were_made_of_it() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission())
    tasks, logs = bench.node.store.tasks, bench.node.store.logs
    task = (await tasks.load([first.task_id]))[first.task_id]
    await tasks.advance([task.state.cancelled("", at=bench.clock.now())])
    ended = (await tasks.load([first.task_id]))[first.task_id]
    again = []
    for _ in range(2):
        await bench.clock.sleep(timedelta(seconds=1))
        again.append((await desk.rerun(ended, key="one")).task_id)
        await bench.clock.sleep(timedelta(seconds=1))
        [added] = await desk.rerun_many([ended], key="many")
        again.append(added.task_id)
    told = [line for line in await logs.read(first.task_id) if "rerun_as" in line.detail]
    assert [line.detail for line in told] == [f'{{"rerun_as": "{one}"}}' for one in dict.fromkeys(again)]
    assert told[0].message == "run again as another task"


@virtually
async def test_a_task_is_run_again_though_that_cannot_be_told_in_its_record() -> None:
    bench, desk = await a_desk()
    first = await desk.submit(a_submission())
    await SteerTasks(bench.node).cancel(first.task_id, DEFAULT_TENANT)
    task = (await bench.node.store.tasks.load([first.task_id]))[first.task_id]
    bench.faults.inject("logs.append", Fault.GONE)
    again = await desk.rerun(task, payload={})
    assert bench.faults.pending == {}
    assert (await bench.node.store.tasks.load([again.task_id]))[again.task_id].spec.rerun_of == first.task_id


@virtually
async def test_a_changed_config_is_seen_within_seconds() -> None:
    bench, desk = await a_desk()
    await desk.submit(a_submission())
    await bench.node.store.configs.put(a_config(EMAIL, timeout=timedelta(seconds=7)))
    await bench.clock.sleep(timedelta(seconds=3))
    added = await desk.submit(a_submission())
    task = (await bench.node.store.tasks.load([added.task_id]))[added.task_id]
    assert task.spec.timeout == timedelta(seconds=7)


@virtually
async def test_who_submitted_a_task_is_recorded_without_its_payload() -> None:
    bench, desk = await a_desk()
    added = await desk.submit(a_submission(payload={"to": "eve"}), actor=ADA)
    [entry] = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.actor, entry.address, entry.at) == ("ada", "192.0.2.7", bench.clock.now())
    assert (entry.action, entry.object, entry.detail) == ("task.create", str(added.task_id), EMAIL)
    assert "eve" not in repr(entry)


@virtually
async def test_what_the_program_submits_is_not_recorded() -> None:
    bench, desk = await a_desk()
    await desk.submit(a_submission())
    await desk.submit_many([a_submission()])
    assert await recorded(bench) == []


@virtually
async def test_of_submissions_that_share_a_commit_each_is_recorded() -> None:
    bench, desk = await a_desk()
    actors = [Actor(tenant_id=DEFAULT_TENANT, name=f"client {number}") for number in range(5)]
    added = await asyncio.gather(*(desk.submit(a_submission(), actor=actor) for actor in actors))
    expected = [(actor.name, "task.create", str(one.task_id)) for actor, one in zip(actors, added, strict=True)]
    assert await recorded(bench) == expected


@virtually
async def test_a_repeated_key_is_recorded_once() -> None:
    bench, desk = await a_desk()
    added = [await desk.submit(a_submission(idempotency_key="order-1"), actor=ADA) for _ in range(2)]
    assert await recorded(bench) == [("ada", "task.create", str(added[0].task_id))]


@virtually
async def test_a_batch_is_recorded_once_with_the_number_of_its_tasks() -> None:
    bench, desk = await a_desk()
    await bench.node.store.configs.put(a_config("sms"))
    await desk.submit(a_submission(idempotency_key="order-1"))
    wishes = [a_submission(idempotency_key="order-1"), a_submission(type="sms"), a_submission()]
    await desk.submit_many(wishes, actor=ADA)
    await desk.submit_many([], actor=ADA)
    await desk.submit_many([a_submission(idempotency_key="order-1")], actor=ADA)
    [entry] = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.action, entry.object) == ("task.create_many", f"{EMAIL}, sms")
    assert entry.detail.startswith("3 tasks, ")


@virtually
async def test_who_ran_a_task_again_is_recorded() -> None:
    bench, desk = await a_desk()
    added = await desk.submit(a_submission())
    tasks = bench.node.store.tasks
    task = (await tasks.load([added.task_id]))[added.task_id]
    await tasks.advance([task.state.cancelled("", at=bench.clock.now())])
    again = await desk.rerun((await tasks.load([added.task_id]))[added.task_id], actor=ADA)
    [entry] = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.action, entry.object) == ("task.retry", str(added.task_id))
    assert entry.detail == f"as task {again.task_id}"


@virtually
async def test_a_created_task_comes_with_the_answer() -> None:
    bench, desk = await a_desk()
    created = await desk.create(a_submission(payload={"number": 1}, idempotency_key="k"))
    assert created.task == await bench.node.store.tasks.find(created.task_id, DEFAULT_TENANT)
    again = await desk.create(a_submission(payload={"number": 1}, idempotency_key="k"))
    assert (again.is_repeat, again.task) == (True, created.task)


@virtually
async def test_the_first_task_of_a_key_that_was_deleted_meanwhile_is_not_found() -> None:
    bench, desk = await a_desk()
    created = await desk.create(a_submission(idempotency_key="k"))

    async def find(*_: object) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch, pytest.raises(NotFoundError):
        patch.setattr(bench.node.store.tasks, "find", find)
        await desk.create(a_submission(idempotency_key="k"))
    assert await bench.node.store.tasks.find(created.task_id, DEFAULT_TENANT)


@virtually
async def test_every_bad_wish_of_a_batch_is_named_up_to_a_bound() -> None:
    _, desk = await a_desk()
    with pytest.raises(InvalidError) as caught:
        await desk.submit_many([a_submission(type="nothing"), a_submission(), a_submission(type="nothing")])
    assert [part.field for part in caught.value.parts] == ["tasks[0].type", "tasks[2].type"]
    with pytest.raises(InvalidError) as caught:
        await desk.submit_many([a_submission(type="nothing")] * (MOST_ERRORS + 50))
    assert len(caught.value.parts) == MOST_ERRORS
