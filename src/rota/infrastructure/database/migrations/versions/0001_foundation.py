"""The foundation: tasks, their logs and results, configs, schedules, workers, terms, node slots."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
BIG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
SORTED_TEXT = sa.String(200).with_variant(sa.String(200, collation="C"), "postgresql")


def upgrade() -> None:
    _create_leadership()
    _create_node_slot()
    _create_schedule_occurrence()
    _create_task()
    _create_task_config()
    _create_task_config_revision()
    _create_task_count()
    _create_task_key()
    _create_task_live()
    _create_task_logs()
    _create_task_result()
    _create_worker_registry()
    # The term is counted in this one row; a leader refuses to lead without it.
    op.execute("INSERT INTO leadership (id, term) VALUES (1, 0)")


def _create_leadership() -> None:
    op.create_table(
        "leadership",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("node_id", sa.String(length=200), server_default="", nullable=False),
        sa.Column("begun_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("confirmed_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_node_slot() -> None:
    op.create_table(
        "node_slot",
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_id", sa.String(length=200), server_default="", nullable=False),
        sa.Column("lease_number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("leased_until_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("slot"),
        **MYSQL,
    )


def _create_schedule_occurrence() -> None:
    op.create_table(
        "schedule_occurrence",
        sa.Column("tenant_id", sa.String(length=63), nullable=False),
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.Column("fire_us", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.String(length=200), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "type", "fire_us"),
        **MYSQL,
    )


def _create_task() -> None:
    op.create_table(
        "task",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("retry_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("term", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completed_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("scheduled_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("timeout_us", sa.BigInteger(), server_default="300000000", nullable=False),
        sa.Column("rerun_of", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), server_default="", nullable=False),
        sa.Column("retry_json", sa.String(length=255), server_default="", nullable=False),
        sa.Column("metadata_json", BIG_TEXT, nullable=True),
        sa.Column("payload_json", BIG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_task_config() -> None:
    op.create_table(
        "task_config",
        sa.Column("tenant_id", sa.String(length=63), nullable=False),
        sa.Column("type", SORTED_TEXT, nullable=False),
        sa.Column("revision", sa.Integer(), server_default="0", nullable=False),
        sa.Column("is_enabled", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("next_fire_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("config_json", BIG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "type"),
        **MYSQL,
    )
    op.create_index("task_config_due", "task_config", ["next_fire_us"])


def _create_task_config_revision() -> None:
    op.create_table(
        "task_config_revision",
        sa.Column("tenant_id", sa.String(length=63), nullable=False),
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("is_enabled", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("next_fire_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("config_json", BIG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "type", "revision"),
        **MYSQL,
    )


def _create_task_count() -> None:
    op.create_table(
        "task_count",
        sa.Column("tenant_id", sa.String(length=63), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "status", "shard"),
        **MYSQL,
    )


def _create_task_key() -> None:
    op.create_table(
        "task_key",
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "idempotency_key"),
        **MYSQL,
    )
    op.create_index("task_key_task", "task_key", ["task_id"])


def _create_task_live() -> None:
    op.create_table(
        "task_live",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), server_default="2", nullable=False),
        sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("retry_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("due_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("worker_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("term", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_lost_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("prior_lost_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
        postgresql_with={"fillfactor": 70},
    )


def _create_task_logs() -> None:
    op.create_table(
        "task_logs",
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("from_status", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("to_status", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("at_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("detail", BIG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("task_id", "seq"),
        sqlite_with_rowid=False,
        **MYSQL,
    )


def _create_task_result() -> None:
    op.create_table(
        "task_result",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("status", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("result_json", BIG_TEXT, nullable=True),
        sa.Column("error_json", BIG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("task_id"),
        **MYSQL,
    )
    op.create_index("task_result_status", "task_result", ["status", "task_id"])


def _create_worker_registry() -> None:
    op.create_table(
        "worker_registry",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("name", sa.String(length=200), server_default="", nullable=False),
        sa.Column("address", sa.String(length=255), server_default="", nullable=False),
        sa.Column("capacity", sa.Integer(), server_default="1", nullable=False),
        sa.Column("running", sa.Integer(), server_default="0", nullable=False),
        sa.Column("weight", sa.Integer(), server_default="1", nullable=False),
        sa.Column("is_draining", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("registered_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("seen_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("retired_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("types_json", sa.Text(), nullable=False),
        sa.Column("labels_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
