"""The task life on a real store, against a model of plain dicts that knows neither the domain's code nor the store's.

Hypothesis makes up sequences of calls; after each one the store must agree with the model in everything.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.application.ports.store import Added, Store, Written
from rota.domain.attempt import TaskError, TaskResult
from rota.domain.errors import IdempotencyMismatchError
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId, next_id
from rota.domain.log import place
from rota.domain.paging import TaskFilter
from rota.domain.submission import NewTask
from rota.domain.task import PENDING, Task, TaskSpec, TaskState, Transition
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.memory.store import memory_store
from rota.infrastructure.store.sql.store import open_sql_store
from tests.support.clock import FakeClock
from tests.support.properties import LIFE

T = TypeVar("T")
Row = dict[str, Any]

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WAITING = {"PENDING", "RETRYING"}
LIVE = {*WAITING, "PROCESSING"}
ENDED = {"SUCCESS", "FAILED", "TIMEOUT", "CANCELLED"}
FEW = 4  # live tasks at once, so that one of them lives long enough to have a history
PICKS = st.integers(0, 999)
WORKERS = st.sampled_from([WorkerId(1), WorkerId(2), WorkerId(3)])


class StoreMachine(RuleBasedStateMachine):
    """One store, the model of its tasks, and what earlier callers still remember."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.opened = self.open_store()
        self.store = self.run(self.opened.__aenter__())
        self.rows: dict[TaskId, Row] = {}
        self.states: dict[TaskId, TaskState] = {}
        self.outdated: list[TaskState] = []
        self.touched: set[TaskId] = set()  # whose records are to be read
        self.keys: dict[str, tuple[TaskId, str]] = {}
        self.last_id = 0
        self.last_add: tuple[list[NewTask], list[Added]] | None = None
        self.last_steps: list[Transition] = []

    def open_store(self) -> AbstractAsyncContextManager[Store]:
        raise NotImplementedError

    def teardown(self) -> None:
        self.touched = set(self.rows)
        try:
            self.records_are_gapless_and_no_attempt_is_used_twice()
        finally:
            self.run(self.opened.__aexit__(None, None, None))
            self.loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    # What may happen

    @precondition(lambda self: len(self.having(LIVE)) < FEW)
    @rule(count=st.integers(1, 3), is_late=st.booleans())
    def submit(self, count: int, is_late: bool) -> None:
        new = [NewTask(self.make_task(is_late=is_late)) for _ in range(count)]
        assert self.add(new) == [Added(item.task.id) for item in new]

    @precondition(lambda self: len(self.having(LIVE)) < FEW)
    @rule(key=st.sampled_from("ab"), digest=st.sampled_from(["one", "two"]))
    def submit_with_a_key(self, key: str, digest: str) -> None:
        new = NewTask(self.make_task(), key, digest)
        first, known = self.keys.get(key, (new.task.id, digest))
        if known != digest:
            try:
                self.run(self.store.tasks.add([new]))
            except IdempotencyMismatchError as refused:
                assert refused.task_id == first
                return
            raise AssertionError("the key was used for another request")
        assert self.add([new]) == [Added(first, is_repeat=first != new.task.id)]

    @precondition(lambda self: self.having(WAITING))
    @rule(picks=st.lists(PICKS, min_size=1, max_size=4), worker_id=WORKERS)
    def grant(self, picks: list[int], worker_id: WorkerId) -> None:
        self.grant_each({self.pick(WAITING, number) for number in picks}, worker_id)

    def grant_each(self, chosen: Collection[TaskId], worker_id: WorkerId) -> None:
        now = max(self.clock.now(), *(self.rows[task_id]["due"] for task_id in chosen))
        self.clock.advance(now - self.clock.now())
        steps = [self.states[one].granted(worker_id, term=7, at=now, timeout=MINUTE) for one in sorted(chosen)]
        self.advance(steps)
        for task_id in chosen:
            row = self.rows[task_id]
            self.change(task_id, status="PROCESSING", attempt=row["attempt"] + 1, worker=worker_id, due=now + MINUTE)

    @precondition(lambda self: self.having({"PROCESSING"}))
    @rule(number=PICKS, data=st.none() | st.text(max_size=5))
    def succeed(self, number: int, data: str | None) -> None:
        task_id = self.pick({"PROCESSING"}, number)
        self.advance([self.states[task_id].succeeded(TaskResult(data=data), at=self.clock.now())])
        self.end(task_id, "SUCCESS", data=data, error=None)

    @precondition(lambda self: self.having({"PROCESSING"}))
    @rule(number=PICKS, is_timeout=st.booleans())
    def fail(self, number: int, is_timeout: bool) -> None:
        task_id = self.pick({"PROCESSING"}, number)
        state, error = self.states[task_id], TaskError(f"error {self.rows[task_id]['version']}")
        step = state.timed_out if is_timeout else state.failed
        self.advance([step(error, at=self.clock.now())])
        self.end(task_id, "TIMEOUT" if is_timeout else "FAILED", error=error.code)

    @precondition(lambda self: self.having({"PROCESSING"}))
    @rule(number=PICKS)
    def retry(self, number: int) -> None:
        task_id = self.pick({"PROCESSING"}, number)
        row, now = self.rows[task_id], self.clock.now()
        error = TaskError(f"error {row['version']}")
        self.advance([self.states[task_id].retried(error, at=now, due_at=now + HOUR)])
        retries = row["retries"] + 1
        self.change(task_id, status="RETRYING", worker=None, due=now + HOUR, retries=retries, error=error.code)

    @precondition(lambda self: self.having({"PROCESSING"}))
    @rule(number=PICKS)
    def release(self, number: int) -> None:
        task_id, now = self.pick({"PROCESSING"}, number), self.clock.now()
        self.advance([self.states[task_id].released("drained", at=now, due_at=now + MINUTE)])
        self.change(task_id, status="PENDING", worker=None, due=now + MINUTE)

    @precondition(lambda self: self.having({"PROCESSING"}))
    @rule(number=PICKS)
    def lose(self, number: int) -> None:
        self.lose_worker_of(self.pick({"PROCESSING"}, number))

    @precondition(lambda self: self.having(WAITING))
    @rule(number=PICKS, times=st.integers(2, 3), worker_id=WORKERS)
    def lose_again_and_again(self, number: int, times: int, worker_id: WorkerId) -> None:
        task_id = self.pick(WAITING, number)
        for _ in range(times):
            if self.rows[task_id]["status"] in WAITING:
                self.grant_each([task_id], worker_id)
                self.lose_worker_of(task_id)

    def lose_worker_of(self, task_id: TaskId) -> None:
        now = self.clock.now()
        losses = [*self.rows[task_id]["losses"], now]
        self.advance([self.states[task_id].lost(at=now)])
        if len(losses) >= 3 and now - losses[-3] <= timedelta(hours=72):
            self.end(task_id, "FAILED", error="poison")
        else:
            self.change(task_id, status="PENDING", worker=None, due=now, losses=losses)

    @precondition(lambda self: self.having(LIVE))
    @rule(number=PICKS)
    def cancel(self, number: int) -> None:
        task_id = self.pick(LIVE, number)
        self.advance([self.states[task_id].cancelled("enough", at=self.clock.now())])
        self.end(task_id, "CANCELLED", error="cancelled")

    @precondition(lambda self: self.having(WAITING))
    @rule(number=PICKS, priority=st.integers(0, 9))
    def reprioritise(self, number: int, priority: int) -> None:
        task_id = self.pick(WAITING, number)
        self.advance([self.states[task_id].amended(priority=priority, at=self.clock.now())])
        self.change(task_id, priority=priority)

    @rule(duration=st.sampled_from([MINUTE, HOUR, 50 * HOUR]))
    def let_time_pass(self, duration: timedelta) -> None:
        self.clock.advance(duration)

    @precondition(lambda self: self.last_add is not None)
    @rule()
    def repeat_the_last_add(self) -> None:
        assert self.last_add is not None
        new, answers = self.last_add
        assert self.run(self.store.tasks.add(new)) == answers

    @precondition(lambda self: self.last_steps)
    @rule()
    def repeat_the_last_steps(self) -> None:
        answer = self.run(self.store.tasks.advance(self.last_steps))
        assert answer == Written(repeated=frozenset(step.task_id for step in self.last_steps))
        self.touched |= answer.repeated

    @precondition(lambda self: self.outdated)
    @rule(number=PICKS)
    def send_an_outdated_step(self, number: int) -> None:
        state = self.outdated[number % len(self.outdated)]
        step = self.outdated_step(state)
        self.touched.add(state.id)
        assert self.run(self.store.tasks.advance([step])) == Written(stale=frozenset({state.id}))

    @precondition(lambda self: self.outdated and self.having(WAITING))
    @rule(old=PICKS, number=PICKS)
    def send_an_outdated_step_beside_a_good_one(self, old: int, number: int) -> None:
        task_id = self.pick(WAITING, number)
        state = self.outdated[old % len(self.outdated)]
        if state.id == task_id:
            return
        now = self.clock.now()
        steps = [self.outdated_step(state), self.states[task_id].amended(priority=3, at=now)]
        answer = self.run(self.store.tasks.advance(steps))
        assert answer == Written(applied=frozenset({task_id}), stale=frozenset({state.id}))
        self.touched |= {task_id, state.id}
        self.last_steps = steps[1:]
        self.remember(steps[1])
        self.change(task_id, priority=3)

    @rule(limit=st.integers(1, 5), age=st.sampled_from([MINUTE, HOUR]))
    def purge(self, limit: int, age: timedelta) -> None:
        self.clock.advance(MINUTE + SECOND)
        moment = self.clock.now() - age
        old = [task_id for task_id, row in self.rows.items() if row["ended"] is not None and row["ended"] < moment]
        gone = sorted(old)[:limit]
        assert self.run(self.store.tasks.purge(completed_before=moment, limit=limit)) == len(gone)
        for task_id in gone:
            del self.rows[task_id], self.states[task_id]
        self.keys = {key: first for key, first in self.keys.items() if first[0] not in gone}
        self.last_add, self.last_steps = None, []

    # What must always be so

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        tasks = self.run(self.store.tasks.list_page(TaskFilter(limit=1000))).items
        assert {task.id: _to_row(task) for task in tasks} == {
            task_id: {name: row[name] for name in row if name != "losses"} for task_id, row in self.rows.items()
        }

    @invariant()
    def what_is_live_is_listed(self) -> None:
        live = self.run(self.store.tasks.list_live(after=None, limit=1000))
        assert [task.id for task in live] == sorted(self.having(LIVE))

    @invariant()
    def counts_agree(self) -> None:
        counts = self.run(self.store.tasks.count_by_status(DEFAULT_TENANT))
        assert counts == Counter(row["status"] for row in self.rows.values())

    @invariant()
    def what_is_due_is_due(self) -> None:
        assert [task.id for task in self.run(self.store.tasks.list_due(1000))] == self.list_due()

    @invariant()
    def records_are_gapless_and_no_attempt_is_used_twice(self) -> None:
        for task_id in self.touched & self.rows.keys():
            row = self.rows[task_id]
            record = self.run(self.store.logs.read(task_id))
            assert [entry.seq for entry in record] == [place(version) for version in range(1, row["version"] + 1)]
            grants = [entry.attempt for entry in record if (entry.from_status, entry.to_status) in _GRANTS]
            assert grants == list(range(1, row["attempt"] + 1))
            assert not any(entry.from_status in ENDED for entry in record if entry.from_status)
        self.touched.clear()

    # The model

    def make_task(self, *, is_late: bool = False) -> Task:
        now = self.clock.now()
        self.last_id = next_id(self.last_id, now=now, slot=1)
        task_id, due_at = TaskId(self.last_id), now + (HOUR if is_late else timedelta(0))
        spec = TaskSpec(id=task_id, type="email", created_at=now)
        return Task(spec=spec, state=TaskState(id=task_id, status=PENDING, due_at=due_at))

    def add(self, new: list[NewTask]) -> list[Added]:
        answers = self.run(self.store.tasks.add(new))
        for item, answer in zip(new, answers, strict=True):
            if not answer.is_repeat:
                self.states[item.task.id] = item.task.state
                self.rows[item.task.id] = _new_row(item.task.state.due_at)
                self.touched.add(item.task.id)
                if item.key is not None:
                    self.keys[item.key] = (item.task.id, item.digest)
        self.last_add = (new, answers)
        return answers

    def advance(self, steps: list[Transition]) -> None:
        answer = self.run(self.store.tasks.advance(steps))
        assert answer == Written(applied=frozenset(step.task_id for step in steps))
        self.last_steps = steps
        self.touched |= {step.task_id for step in steps}
        for step in steps:
            self.remember(step)

    def remember(self, step: Transition) -> None:
        self.outdated.append(step.before)
        self.states[step.task_id] = step.after

    def outdated_step(self, state: TaskState) -> Transition:
        at = self.clock.now() + timedelta(days=1)  # a moment of its own: the same step at the same moment is a repeat
        kinds: list[Callable[[], Transition]] = [lambda: state.cancelled("too late", at=at)]
        if state.status.is_waiting:
            kinds.append(lambda: state.granted(WorkerId(9), term=8, at=max(at, state.due_at), timeout=MINUTE))
        else:
            kinds.append(lambda: state.succeeded(TaskResult(data="late"), at=at))
            kinds.append(lambda: state.retried(TaskError("late"), at=at, due_at=at))
        return kinds[state.version % len(kinds)]()

    def change(self, task_id: TaskId, **changes: Any) -> None:
        assert self.rows[task_id]["status"] not in ENDED, "final is final"
        self.rows[task_id] |= {"version": self.rows[task_id]["version"] + 1, **changes}

    def end(self, task_id: TaskId, status: str, **changes: Any) -> None:
        now = self.clock.now()
        self.change(task_id, status=status, due=now, ended=now, **changes)

    def having(self, statuses: Iterable[str]) -> list[TaskId]:
        return [task_id for task_id, row in self.rows.items() if row["status"] in statuses]

    def list_due(self) -> list[TaskId]:
        now = self.clock.now()
        due = [(self.rows[task_id]["due"], task_id) for task_id in self.having(WAITING)]
        return [task_id for due_at, task_id in sorted(due) if due_at <= now]

    def pick(self, statuses: Iterable[str], number: int) -> TaskId:
        fitting = self.having(statuses)
        return fitting[number % len(fitting)]


_GRANTS = {("PENDING", "PROCESSING"), ("RETRYING", "PROCESSING")}


def _new_row(due_at: datetime) -> Row:
    facts: Row = {"status": "PENDING", "version": 1, "attempt": 0, "retries": 0, "priority": 0, "due": due_at}
    return facts | {"worker": None, "ended": None, "error": None, "data": None, "losses": []}


def _to_row(task: Task) -> Row:
    state = task.state
    return {
        "status": state.status.value,
        "version": state.version,
        "attempt": state.attempt,
        "retries": state.retry_count,
        "priority": state.priority,
        "due": state.due_at,
        "worker": state.worker_id,
        "ended": state.completed_at,
        "error": task.error.code if task.error is not None else None,
        "data": task.result.data if task.result is not None else None,
    }


class NoChance:
    """The store's pauses before another try then last no time: this clock stands still while the store works."""

    def chance(self) -> float:
        return 0.0


class MemoryMachine(StoreMachine):
    def open_store(self) -> AbstractAsyncContextManager[Store]:
        return nullcontext(memory_store(self.clock))


class SqliteMachine(StoreMachine):
    def open_store(self) -> AbstractAsyncContextManager[Store]:
        return _open_sqlite(_empty_file(), self.clock)


@asynccontextmanager
async def _open_sqlite(content: bytes, clock: FakeClock) -> AsyncIterator[Store]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rota.db"
        path.write_bytes(content)
        async with open_sql_store(f"sqlite:///{path}", clock=clock, random=NoChance()) as store:
            yield store


@cache
def _empty_file() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rota.db"
        asyncio.run(upgrade(f"sqlite:///{path}"))
        return path.read_bytes()


MemoryMachine.TestCase.settings = settings(LIFE, max_examples=50)
SqliteMachine.TestCase.settings = settings(LIFE, stateful_step_count=30)
patiently = pytest.mark.timeout(300)  # of use only when it fails: to find a short example takes time
TestTaskLifeInMemory = patiently(MemoryMachine.TestCase)
TestTaskLifeOnSqlite = patiently(SqliteMachine.TestCase)
