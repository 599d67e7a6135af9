"""The tables. A task's row is written once and once more at its end; in between only its narrow live row changes.

Why three tables for a task (measured, ADR-0004): what changes is fixed-width and in no secondary index, so a grant
rewrites 100 bytes in place; the wide row with the payload is touched twice in its life; a result is appended only when
there is one. The cost of a task therefore does not grow with the history.

Conventions: instants are microseconds since 1970 in a BIGINT (`*_us`), 0 where there is none; states are small codes
(`codes.py`); text that holds JSON ends in `_json`; every row has its tenant.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT

DEFAULT_TENANT = "default"
SHORT, LONG = 63, 200

metadata = MetaData()
_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _big_text() -> Any:
    return Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")


def _sorted_text(length: int) -> Any:
    """Text that is paged by: in the order of its code points on every database, and so served by its index."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _id(name: str = "id") -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _tenant() -> Column[str]:
    return Column("tenant_id", String(SHORT), nullable=False, server_default=DEFAULT_TENANT)


def _number(name: str, default: int = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=str(default))


def _count(name: str, default: int = 0) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=str(default))


def _small(name: str, default: int = 0) -> Column[int]:
    return Column(name, SmallInteger, nullable=False, server_default=str(default))


def _text(name: str, length: int) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default="")


task = Table(
    "task",
    metadata,
    _id(),
    _small("status"),  # 0 while the task is live; its state is in task_live
    _small("priority"),
    _count("attempt"),
    _count("version", 1),
    _count("retry_count"),
    _number("worker_id"),
    _number("term"),
    _number("started_us"),
    _number("completed_us"),
    _number("created_us"),
    _number("scheduled_us"),
    _number("timeout_us", 300_000_000),
    _number("rerun_of"),
    _tenant(),
    Column("type", String(LONG), nullable=False),
    _text("name", LONG),
    _text("retry_json", 255),  # empty: the standard policy
    Column("metadata_json", _big_text(), nullable=True),
    Column("payload_json", _big_text(), nullable=False),
    **_MYSQL,
)

task_live = Table(
    "task_live",
    metadata,
    _id(),
    _small("status", 2),
    _small("priority"),
    _count("attempt"),
    _count("version", 1),
    _count("retry_count"),
    _number("due_us"),
    _number("started_us"),
    _number("worker_id"),
    _number("term"),
    _number("last_lost_us"),
    _number("prior_lost_us"),
    _tenant(),
    postgresql_with={"fillfactor": 70},  # room for updates in place
    **_MYSQL,
)

task_result = Table(
    "task_result",
    metadata,
    _id("task_id"),
    _tenant(),
    _small("status"),
    Column("result_json", _big_text(), nullable=True),
    Column("error_json", _big_text(), nullable=True),
    Index("task_result_status", "status", "task_id"),  # finds the failures among millions of successes
    **_MYSQL,
)

task_count = (
    Table(  # how many tasks ended how; each transaction adds to one of a few shards, so nobody queues for a row
        "task_count",
        metadata,
        Column("tenant_id", String(SHORT), nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("shard", SmallInteger, nullable=False),
        _number("number"),
        PrimaryKeyConstraint("tenant_id", "status", "shard"),
        **_MYSQL,
    )
)

task_key = Table(
    "task_key",
    metadata,
    _tenant(),
    Column("idempotency_key", String(255), nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("tenant_id", "idempotency_key"),
    Index("task_key_task", "task_id"),
    **_MYSQL,
)

task_logs = Table(
    "task_logs",
    metadata,
    Column("task_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    _small("kind"),
    _small("from_status"),
    _small("to_status"),
    _count("attempt"),
    _number("worker_id"),
    _number("at_us"),
    _tenant(),
    Column("message", Text, nullable=True),
    Column("detail", _big_text(), nullable=True),
    PrimaryKeyConstraint("task_id", "seq"),
    sqlite_with_rowid=False,  # kept in the order of its key, as the servers do: one tree instead of two
    **_MYSQL,
)

task_config = Table(
    "task_config",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", _sorted_text(LONG), nullable=False),
    _count("revision"),
    _small("is_enabled", 1),
    _number("next_fire_us"),
    _number("created_us"),
    _number("updated_us"),
    Column("config_json", _big_text(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "type"),
    Index("task_config_due", "next_fire_us"),
    **_MYSQL,
)

task_config_revision = Table(
    "task_config_revision",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", String(LONG), nullable=False),
    Column("revision", Integer, nullable=False),
    _small("is_enabled", 1),
    _number("next_fire_us"),
    _number("created_us"),
    _number("updated_us"),
    Column("config_json", _big_text(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "type", "revision"),
    **_MYSQL,
)

schedule_occurrence = Table(
    "schedule_occurrence",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", String(LONG), nullable=False),
    Column("fire_us", BigInteger, nullable=False),
    _number("task_id"),  # 0: skipped
    _text("reason", LONG),
    PrimaryKeyConstraint("tenant_id", "type", "fire_us"),
    **_MYSQL,
)

worker_registry = Table(
    "worker_registry",
    metadata,
    _id(),
    _tenant(),
    _text("name", LONG),
    _text("address", 255),
    _count("capacity", 1),
    _count("running"),
    _count("weight", 1),
    _small("is_draining"),
    _number("registered_us"),
    _number("seen_us"),
    _number("retired_us"),
    Column("types_json", Text, nullable=False),
    Column("labels_json", Text, nullable=False),
    **_MYSQL,
)

leadership = Table(  # one row, seeded by the migration
    "leadership",
    metadata,
    _id(),
    _number("term"),
    _text("node_id", LONG),
    _number("begun_us"),
    _number("confirmed_us"),
    _tenant(),
    **_MYSQL,
)

node_slot = Table(
    "node_slot",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    _text("node_id", LONG),
    _number("lease_number"),  # greater at each lease: also the floor of its ids
    _number("leased_until_us"),
    _tenant(),
    **_MYSQL,
)
