"""Schedules in SQL: what a newer release wrote, and many at once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from structlog.testing import capture_logs

from rota.application import metrics
from rota.application.fire import FireSchedules
from rota.application.manage_configs import ManageConfigs
from rota.application.node import Node, join
from rota.application.ports.system import System
from rota.application.reign import Reign
from rota.application.submit import SubmitTasks
from rota.config.doctor import examine
from rota.config.load import Sources, load
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, InvalidError
from rota.domain.ids import DEFAULT_TENANT, NodeId
from rota.domain.schedule import Schedule
from rota.domain.task_config import UnreadableConfig
from rota.domain.term import Term
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql import schedules
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.builders import HOUR, a_config
from tests.support.stage import Figures

OLD, NEWER = "old", "newer"
PROBLEM = "schedule.moon_phase: is not known"


@dataclass
class Leader:
    node: Node
    database: Database
    figures: Figures
    url: str

    async def fire(self) -> None:
        await FireSchedules(self.node)(Reign(Term(1, trusted_until=float("inf")), self.node.clock))

    async def change(self, statement: str) -> None:
        await self.database.transact(lambda connection: connection.execute(text(statement)).rowcount)


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    """A leader on SQLite, where one of two due schedules has a key that only a newer release knows."""
    url, clock, random = f"sqlite:///{tmp_path}/rota.db", SystemClock(), SystemRandom()
    await upgrade(url)
    database, figures = open_database(url, clock=clock, random=random), Figures()
    node = await join(
        NodeId("a"),
        sql_store(database, random),
        coordinator=memory_coordinator(clock),
        system=System(clock, random),
        collector=figures,
    )
    due_at = clock.now().replace(microsecond=0) - timedelta(seconds=1)
    for task_type in (NEWER, OLD):
        schedule = Schedule(every=timedelta(seconds=1), jitter=timedelta(milliseconds=1))
        await node.store.configs.put(a_config(task_type, schedule=schedule, next_fire_at=due_at))
    found = Leader(node, database, figures, url)
    await found.change(
        "UPDATE task_config SET config_json = replace(config_json, 'jitter_seconds', 'moon_phase') WHERE type = 'newer'"
    )
    yield found
    await database.close()


async def test_a_schedule_of_a_newer_release_stops_no_other_and_is_reported(leader: Leader) -> None:
    with capture_logs() as logs:
        await leader.fire()
    store = leader.node.store
    fired = await store.schedules.list_occurrences(DEFAULT_TENANT, OLD)
    [skipped] = await store.schedules.list_occurrences(DEFAULT_TENANT, NEWER)
    assert any(one.task_id is not None for one in fired)
    assert skipped.reason.startswith(f"unreadable: {PROBLEM}")
    assert leader.figures.counted[metrics.SCHEDULE_TARGETS.name, "unreadable"] == 1
    assert [entry["task_type"] for entry in logs if entry["event"] == "schedule.unreadable"] == [NEWER]


async def test_the_doctor_names_what_cannot_be_read(leader: Leader) -> None:
    found = (await examine(load(Sources(flags={"store.url": leader.url})))).findings
    [finding] = [one for one in found if one.subject == "schedules"]
    assert f"{NEWER} of tenant default: {PROBLEM}" in finding.text
    assert finding.fix == "pip install --upgrade rota"
    await leader.node.store.configs.delete(DEFAULT_TENANT, NEWER)
    found = (await examine(load(Sources(flags={"store.url": leader.url})))).findings
    assert all(one.is_sound for one in found if one.subject == "schedules")


async def test_what_cannot_be_read_is_looked_for_page_by_page(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_PAGE", 1)
    [found] = await leader.node.store.schedules.list_unreadable(5)
    assert isinstance(found, UnreadableConfig)
    assert found.type == NEWER
    await leader.change("UPDATE task_config SET config_json = '{' WHERE type = 'old'")
    assert [one.type for one in await leader.node.store.schedules.list_unreadable(5)] == [NEWER, OLD]
    assert [one.type for one in await leader.node.store.schedules.list_unreadable(1)] == [NEWER]


async def test_asking_for_it_by_name_says_what_is_wrong(leader: Leader) -> None:
    with pytest.raises(InvalidError, match=PROBLEM):
        await leader.node.store.configs.find(DEFAULT_TENANT, NEWER)


async def test_a_list_leaves_out_what_cannot_be_read_and_goes_on_behind_it(leader: Leader) -> None:
    store = leader.node.store
    for task_type in ("a", "z"):
        await store.configs.put(a_config(task_type))
    with capture_logs() as logs:
        pages = [await store.configs.list_page(DEFAULT_TENANT, after=after, limit=2) for after in ("", "old", "z")]
    assert [[one.type for one in page] for page in pages] == [["a", "old"], ["z"], []], "a short page is the last"
    assert {entry["task_type"] for entry in logs if entry["event"] == "config.unreadable"} == {NEWER}
    keys = [(DEFAULT_TENANT, one) for one in (OLD, NEWER)]
    assert list(await store.configs.find_many(keys)) == keys[:1]


async def test_what_is_no_document_at_all_is_left_out_too(leader: Leader) -> None:
    store = leader.node.store
    for table in ("task_config", "task_config_revision"):
        await leader.change(f"UPDATE {table} SET config_json = '[' WHERE type = 'old'")  # noqa: S608 our own tables
    assert await store.configs.list_page(DEFAULT_TENANT) == []
    assert await store.configs.list_revisions(DEFAULT_TENANT, OLD) == []
    with pytest.raises(InvalidError, match="'old' cannot be read"):
        await store.configs.find(DEFAULT_TENANT, OLD)
    with pytest.raises(InvalidError, match="'old' cannot be read"):
        await store.configs.find_revision(DEFAULT_TENANT, OLD, revision=1)


async def test_what_cannot_be_read_can_be_replaced_and_deleted(leader: Leader) -> None:
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    stored = await configs.put(a_config(NEWER, schedule=Schedule(every=timedelta(hours=1))))
    assert (stored.revision, stored.schedule) == (2, Schedule(every=timedelta(hours=1)))
    await leader.change("UPDATE task_config SET config_json = '{'")
    await configs.delete(DEFAULT_TENANT, NEWER)
    assert await leader.node.store.configs.find(DEFAULT_TENANT, NEWER) is None


async def test_a_calendar_is_not_deleted_under_a_schedule_that_cannot_be_read(leader: Leader) -> None:
    store = leader.node.store
    await store.calendars.put(StoredCalendar(calendar=Calendar(name="closed")))
    for task_type in ("a", "b", "c"):
        config = a_config(task_type, schedule=Schedule(cron="0 0 * * *", exclude=("closed",)))
        await store.configs.put(config)
    await leader.change("UPDATE task_config SET config_json = '{' WHERE type IN ('a', 'b')")
    assert [one.type for one in await store.calendars.list_users(DEFAULT_TENANT, "closed", limit=1)] == ["c"]
    await store.configs.delete(DEFAULT_TENANT, "c")
    with pytest.raises(CalendarInUseError, match="a, b"):
        await store.calendars.delete(DEFAULT_TENANT, "closed")
    assert await store.calendars.list_users(DEFAULT_TENANT, "closed") == []


async def test_old_occurrences_are_looked_for_type_by_type(leader: Leader) -> None:
    asked: list[tuple[str, Any]] = []

    def note(*facts: Any) -> None:
        asked.append((facts[2], facts[3]))

    await leader.fire()
    event.listen(Engine, "before_cursor_execute", note)
    try:
        for limit in (1, 100):
            await leader.node.store.schedules.purge(fired_before=leader.node.time.now() + HOUR, limit=limit)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    statements = [(sql, facts) for sql, facts in asked if "schedule_occurrence" in sql]
    assert {sql.split()[0] for sql, _ in statements} == {"SELECT", "DELETE"}
    for sql, facts in statements:
        plan = await leader.database.read(partial(_explain, sql=sql, facts=facts))
        looks = [step for step in plan if "schedule_occurrence" in step]
        assert looks
        assert all(look.startswith("SEARCH") and "tenant_id=? AND type=?" in look for look in looks), plan


def _explain(connection: Connection, *, sql: str, facts: Any) -> list[str]:
    return [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", facts)]


async def test_a_purge_goes_on_where_the_last_one_ended(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_PAGE", 1)
    monkeypatch.setattr(schedules, "_PAGES_PURGED", 1)
    await leader.change("UPDATE task_config SET config_json = replace(config_json, 'moon_phase', 'jitter_seconds')")
    await leader.fire()
    store, later = leader.node.store.schedules, leader.node.time.now() + HOUR
    noted = [len(await store.list_occurrences(DEFAULT_TENANT, one)) for one in (NEWER, OLD)]
    assert await store.purge(fired_before=later, limit=1) == 1
    purged = [await store.purge(fired_before=later, limit=100) for _ in range(4)]
    assert purged == [noted[0] - 1, noted[1], 0, 0]
