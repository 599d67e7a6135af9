"""The contract of `LogStore`: one order, and a line sent twice stands there once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.log import LINE_BITS, LogEntry, Progress, entry_for, first_entry, place, progress_detail, rerun_entry
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, LogKind
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    MANY,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    WORKER_1,
    StoreBackend,
    add,
    add_one,
    cancel_step,
    find,
    grant,
    grant_step,
    make_error,
    make_ids,
    make_tasks,
    success_step,
    write,
)


@pytest.mark.asyncio
class TestLogs:
    async def test_an_unknown_task_has_no_record(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.logs.read(TaskId(42)) == []

    async def test_a_line_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task_id] = make_ids(1)
        full = LogEntry(
            task_id=task_id,
            tenant_id=OTHER_TENANT,
            seq=place(2, 7),
            kind=LogKind.ERROR,
            at=NOON + MICROSECOND,
            from_status=PROCESSING,
            to_status=FAILED,
            attempt=3,
            worker_id=WORKER_1,
            message="it broke",
            detail="at line 1",
        )
        plain = replace(_line(task_id, 8), kind=LogKind.WARNING)
        await store.logs.append([full, plain])
        assert await store.logs.read(task_id) == [full, plain]

    async def test_progress_is_what_the_last_line_of_an_attempt_says_of_it(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task_id, other = make_ids(2)
        await store.logs.append(
            [
                _line(task_id, 1, message="begun", detail=progress_detail(0.1)),
                _line(task_id, 2, message="half way", detail=progress_detail(0.5)),
                _line(task_id, 3, message="a line of its own", detail='{"city": "progress"}'),
                _line(other, 1, message="another task", detail=progress_detail(0.9)),
            ]
        )
        attempt = _line(task_id, 1).attempt
        assert await store.logs.find_progress(task_id, attempt) == Progress(0.5, "half way")
        later = place((_line(task_id, 1).seq >> LINE_BITS) + 1, 1)  # it was heard of, which is a step of its own
        await store.logs.append([replace(_line(task_id, 1, detail=progress_detail(0.7)), seq=later)])
        assert await store.logs.find_progress(task_id, attempt) == Progress(0.7, _line(task_id, 1).message)
        assert await store.logs.find_progress(task_id, attempt + 1) is None, "the next attempt has said nothing"
        assert await store.logs.find_progress(TaskId(42), attempt) is None

    async def test_awkward_text_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task_id] = make_ids(1)
        lines = [_line(task_id, number, message=text, detail=text) for number, text in enumerate(AWKWARD_TEXTS, 1)]
        await store.logs.append(lines)
        assert await store.logs.read(task_id) == lines

    async def test_lines_stand_between_the_transitions_they_belong_to(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        granted = grant_step(task)
        [running] = await write(store, [task], steps=[granted])
        ended = success_step(running)
        await write(store, [running], steps=[ended])
        late = [_line(task.id, 2), _line(task.id, 1)]  # sent after the end, and out of order
        await store.logs.append(late)
        record = await store.logs.read(task.id)
        assert record == [first_entry(task), entry_for(granted), late[1], late[0], entry_for(ended)]

    async def test_a_line_may_follow_the_end(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, again = make_tasks(2)
        [task] = await add(store, [first])
        [ended] = await write(store, [task], steps=[cancel_step(task)])
        line = rerun_entry(ended, again)
        await store.logs.append([line])
        record = await store.logs.read(task.id)
        assert record[-1] == line
        assert [entry.to_status for entry in record[:-1]] == [PENDING, CANCELLED]
        assert await store.tasks.find(task.id, DEFAULT_TENANT) == ended

    async def test_a_line_sent_again_is_left_alone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task_id] = make_ids(1)
        lines = [_line(task_id, number) for number in range(1, 5)]
        await store.logs.append(lines[:3])
        await store.logs.append([_line(task_id, 2, message="another text"), *lines[1:]])
        assert await store.logs.read(task_id) == lines

    @pytest.mark.parametrize("version", [1, 2])
    async def test_a_line_in_the_place_of_a_transition_is_refused(self, backend: StoreBackend, version: int) -> None:
        store = await backend.connect()
        task = await add_one(store)
        with pytest.raises(InvalidError, match="seq"):
            await store.logs.append([_line(task.id, 1), _line(task.id, 0, version=version)])
        granted = grant_step(task)
        await write(store, [task], steps=[granted])
        assert await store.logs.read(task.id) == [first_entry(task), entry_for(granted)]

    async def test_two_nodes_may_send_the_same_lines(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        [task_id] = make_ids(1)
        lines = [_line(task_id, number) for number in range(1, 101)]
        await asyncio.gather(a.logs.append(lines), b.logs.append(lines[::-1]))
        assert await a.logs.read(task_id) == lines

    async def test_appending_nothing_is_fine(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.logs.append([])

    async def test_the_record_is_read_in_pieces(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task_id] = make_ids(1)
        lines = [_line(task_id, number) for number in range(1, MANY + 1)]
        await store.logs.append(lines)
        assert await store.logs.read(task_id) == lines[:1000]
        assert await store.logs.read(task_id, after=lines[9].seq, limit=5) == lines[10:15]
        assert await store.logs.read(task_id, after=lines[-1].seq) == []

    async def test_many_steps_that_say_much_come_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        record = [first_entry(task)]
        for number in range(24):
            granted = grant_step(task)
            [task] = await write(store, [task], steps=[granted])
            at = NOON + number * MINUTE
            error = make_error(f"try_{number}", message="é]\n" * number, detail=f'"{number},1]' * 500 * (number % 3))
            left = task.state.released("drained", at=at, due_at=at)  # at the end, so that the last error is long ago
            step = task.state.retried(error, at=at, due_at=at) if number < 12 else left
            [task] = await write(store, [task], steps=[step])
            record += (entry_for(granted), entry_for(step))
            assert await find(store, task) == task
        assert await store.logs.read(task.id) == record
        assert await store.logs.read(task.id, after=record[9].seq, limit=5) == record[10:15]
        [task] = await grant(store, [task])
        [task] = await write(
            store, [task], steps=[success_step(task, data=f'"{"x" * 5_000}"', at=NOON + MANY * MINUTE)]
        )
        assert await find(store, task) == task

    async def test_each_task_has_its_own_record(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = await add(store, make_tasks(2))
        lines = [_line(first.id, 1), _line(second.id, 1)]
        await store.logs.append(lines)
        assert await store.logs.read(second.id) == [first_entry(second), lines[1]]


def _line(task_id: TaskId, number: int, *, version: int = 2, **changes: Any) -> LogEntry:
    facts: dict[str, Any] = {"message": f"line {number}"} | changes
    return LogEntry(task_id=task_id, seq=place(version, number), kind=LogKind.INFO, at=NOON, **facts)
