"""The contract of `TaskStore.add`: all or none, and harmless when repeated."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rota.application.ports.store import Added
from rota.domain.errors import IdempotencyMismatchError, IdTakenError
from rota.domain.log import first_entry
from rota.domain.retry import RetryPolicy, RetryStrategy
from rota.domain.submission import NewTask
from rota.domain.task import BLOCKED, Task
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    MANY,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    StoreBackend,
    add,
    add_each,
    add_one,
    end,
    find,
    grant,
    grant_one,
    ids_of,
    list_all_ids,
    make_ids,
    make_task,
    make_tasks,
)

LARGEST_PAYLOAD = f'"{"x" * (256 * 1024 - 2)}"'


@pytest.mark.asyncio
class TestAdd:
    async def test_a_task_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        rerun_of, task_id = make_ids(2)
        task = make_task(
            task_id,
            state={"priority": 9, "due_at": NOON + HOUR},
            tenant_id=OTHER_TENANT,
            type="billing/invoice.send:v2",
            name="Rechnung für März",
            payload='{"customer":[1,2.5,null,true],"note":"\\u00e9"}',
            metadata={"env": "prod", "team": "支付"},
            created_at=NOON + MICROSECOND,
            scheduled_at=NOON + HOUR,
            timeout=timedelta(days=366),
            retry=RetryPolicy(
                max_retries=1000,
                strategy=RetryStrategy.FIXED,
                delay=timedelta(microseconds=1_500_001),
                backoff_rate=1.75,
                max_delay=timedelta(days=366),
                jitter=0.123456789,
                retry_on=("5xx", "UNAVAILABLE", "shop.错误"),
                give_up_on=("ValueError",) * 32,
                total_timeout=timedelta(days=366),
            ),
            rerun_of=rerun_of,
        )
        await add(store, [task])
        assert await find(store, task) == task

    async def test_a_task_with_only_what_is_needed_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        assert await find(store, task) == task

    async def test_awkward_text_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        specs = [{"name": text, "payload": text, "metadata": {"text": text}} for text in AWKWARD_TEXTS]
        tasks = await add_each(store, specs)
        assert await store.tasks.load(ids_of(tasks)) == {task.id: task for task in tasks}

    async def test_a_task_may_begin_blocked(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, state={"status": BLOCKED})
        assert await find(store, task) == task

    async def test_the_largest_payload_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, payload=LARGEST_PAYLOAD)
        assert await find(store, task) == task

    async def test_a_batch_may_be_larger_than_a_database_packet(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(66, payload=LARGEST_PAYLOAD))
        assert await list_all_ids(store) == set(ids_of(tasks))

    async def test_a_new_task_has_its_first_log_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, tenant_id=OTHER_TENANT)
        assert await store.logs.read(task.id) == [first_entry(task)]

    async def test_adding_nothing_answers_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.add([]) == []

    async def test_a_large_batch_is_added_and_answered_in_order(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = make_tasks(MANY)[::-1]
        assert await store.tasks.add([NewTask(task) for task in tasks]) == [Added(task.id) for task in tasks]
        assert await list_all_ids(store) == set(ids_of(tasks))

    async def test_a_repeated_add_leaves_a_task_that_moved_on_alone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [first, second] = await add(store, make_tasks(2))
        [running] = await grant(store, [first])
        before = await store.logs.read(first.id)
        answers = await store.tasks.add([NewTask(first), NewTask(second)])
        assert answers == [Added(first.id), Added(second.id)]
        assert await find(store, first) == running
        assert await store.logs.read(first.id) == before

    async def test_a_repeated_add_leaves_an_ended_task_alone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await grant_one(store)
        [ended] = await end(store, [task])
        await add(store, [make_task(task.id)])
        assert await find(store, task) == ended
        assert await list_all_ids(store) == set()

    async def test_a_batch_that_is_partly_there_is_completed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = make_tasks(6)
        await add(store, tasks[1:4])
        answers = await store.tasks.add([NewTask(task) for task in tasks])
        assert answers == [Added(task.id) for task in tasks]
        assert await list_all_ids(store) == set(ids_of(tasks))

    @pytest.mark.parametrize("difference", [{"payload": "1"}, {"tenant_id": OTHER_TENANT}, {"created_at": NOON + HOUR}])
    async def test_an_id_that_another_task_has_is_refused(
        self, backend: StoreBackend, difference: dict[str, Any]
    ) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        await add(store, [second])
        with pytest.raises(IdTakenError) as refused:
            await add(store, [first, make_task(second.id, **difference)])
        assert refused.value.task_id == second.id
        assert await find(store, second) == second
        assert await list_all_ids(store) == {second.id}


@pytest.mark.asyncio
class TestIdempotencyKey:
    async def test_a_key_seen_before_yields_the_first_task(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        assert await store.tasks.add([_keyed(first)]) == [Added(first.id)]
        assert await store.tasks.add([_keyed(second)]) == [Added(first.id, is_repeat=True)]
        assert await find(store, second) is None
        assert await store.logs.read(second.id) == []

    async def test_what_keys_made_is_found_by_them(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        await store.tasks.add([_keyed(first, key="one"), _keyed(second, key="two")])
        tenant = first.spec.tenant_id
        found = await store.tasks.find_by_keys(tenant, ["two", "free", "one"])
        assert found == {"one": first.id, "two": second.id}
        assert await store.tasks.find_by_keys(OTHER_TENANT, ["one"]) == {}
        assert await store.tasks.find_by_keys(tenant, []) == {}

    async def test_the_same_call_with_a_key_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = make_tasks(3)
        new = [_keyed(tasks[0], key="k0"), NewTask(tasks[1]), _keyed(tasks[2], key="k2")]
        answers = [await store.tasks.add(new) for _ in range(2)]
        assert answers == [[Added(task.id) for task in tasks]] * 2
        assert len(await store.logs.read(tasks[0].id)) == 1

    async def test_a_key_yields_the_first_task_also_after_its_end(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        await store.tasks.add([_keyed(first)])
        [running] = await grant(store, [first])
        [ended] = await end(store, [running])
        assert await store.tasks.add([_keyed(second)]) == [Added(first.id, is_repeat=True)]
        assert await find(store, first) == ended

    async def test_the_same_key_twice_in_a_batch_makes_the_first_of_both(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        older, newer = make_tasks(2)
        answers = await store.tasks.add([_keyed(newer), _keyed(older)])
        assert answers == [Added(newer.id), Added(newer.id, is_repeat=True)]
        assert await list_all_ids(store) == {newer.id}

    async def test_a_batch_may_mix_new_keys_old_keys_and_none(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        known, *fresh = make_tasks(4)
        await store.tasks.add([_keyed(known, key="known")])
        answers = await store.tasks.add(
            [NewTask(fresh[0]), _keyed(fresh[1], key="known"), _keyed(fresh[2], key="unknown")]
        )
        assert answers == [Added(fresh[0].id), Added(known.id, is_repeat=True), Added(fresh[2].id)]
        assert await list_all_ids(store) == {known.id, fresh[0].id, fresh[2].id}

    async def test_the_same_key_for_another_request_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        await store.tasks.add([_keyed(first, digest="one")])
        with pytest.raises(IdempotencyMismatchError) as refused:
            await store.tasks.add([_keyed(second, digest="two")])
        assert (refused.value.key, refused.value.task_id) == ("key", first.id)

    async def test_a_refused_key_adds_nothing_of_its_batch(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        known, *others = make_tasks(1_000)
        await store.tasks.add([_keyed(known, digest="one")])
        batch = [*(NewTask(task) for task in others[:-1]), _keyed(others[-1], digest="two")]
        with pytest.raises(IdempotencyMismatchError):
            await store.tasks.add(batch)
        assert await list_all_ids(store) == {known.id}
        assert await store.logs.read(others[0].id) == []

    async def test_a_refused_batch_leaves_its_other_keys_unused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, third = make_tasks(3)
        with pytest.raises(IdempotencyMismatchError):
            await store.tasks.add([_keyed(first, digest="one"), _keyed(second, digest="two")])
        assert await store.tasks.add([_keyed(third, digest="three")]) == [Added(third.id)]

    async def test_a_key_belongs_to_its_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [own_id, other_id] = make_ids(2)
        own, other = make_task(own_id), make_task(other_id, tenant_id=OTHER_TENANT)
        answers = await store.tasks.add([_keyed(own, digest="one"), _keyed(other, digest="two")])
        assert answers == [Added(own.id), Added(other.id)]
        assert await find(store, other) == other

    async def test_keys_that_look_alike_are_different(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        keys = ["a", "A", "á", "a\u0301", "а", "a.", "🐎", "🐴", "k" * 255, "k" * 254]  # noqa: RUF001 - one is Cyrillic
        tasks = make_tasks(len(keys))
        new = [_keyed(task, key=key, digest=key[:60]) for task, key in zip(tasks, keys, strict=True)]
        assert await store.tasks.add(new) == [Added(task.id) for task in tasks]

    async def test_a_large_batch_of_keys_may_be_repeated_with_new_ids(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(MANY), make_tasks(MANY, at=NOON + HOUR)
        for tasks in (first, second):
            new = [_keyed(task, key=f"key-{number}") for number, task in enumerate(tasks)]
            answers = await store.tasks.add(new)
            assert [answer.task_id for answer in answers] == ids_of(first)
        assert await list_all_ids(store) == set(ids_of(first))

    async def test_two_nodes_with_the_same_key_make_one_task(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        of_a, of_b = make_tasks(20), make_tasks(20, at=NOON + HOUR)
        calls = [
            node.tasks.add([_keyed(task, key=f"key-{number}")])
            for number, pair in enumerate(zip(of_a, of_b, strict=True))
            for node, task in zip((a, b), pair, strict=True)
        ]
        answers = [answer for [answer] in await asyncio.gather(*calls)]
        winners = [answer.task_id for answer in answers[::2]]
        assert [answer.task_id for answer in answers[1::2]] == winners
        assert sum(answer.is_repeat for answer in answers) == 20
        assert await list_all_ids(a) == set(winners)

    async def test_two_nodes_that_add_the_same_batch_add_it_once(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        tasks = make_tasks(200)
        new = [_keyed(task, key=f"key-{number}") for number, task in enumerate(tasks)]
        first, second = await asyncio.gather(a.tasks.add(new), b.tasks.add(new[::-1]))
        assert first == second[::-1] == [Added(task.id) for task in tasks]
        assert await list_all_ids(a) == set(ids_of(tasks))
        assert len(await a.logs.read(tasks[7].id)) == 1


def _keyed(task: Task, *, key: str = "key", digest: str = "digest") -> NewTask:
    return NewTask(task, key, digest)
