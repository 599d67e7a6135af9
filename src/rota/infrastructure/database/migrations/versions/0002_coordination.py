"""Coordination on the store's own database: lease, memory, workers, queue, deliveries, cancel requests, events."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
BIG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    _create_cancel()
    _create_delivery()
    _create_event()
    _create_lease()
    _create_memory()
    _create_queue()
    _create_tally()
    _create_worker()


def _create_cancel() -> None:
    op.create_table(
        "coordination_cancel",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
    op.create_index("coordination_cancel_expiry", "coordination_cancel", ["expires_us"])


def _create_delivery() -> None:
    op.create_table(
        "coordination_delivery",
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("position_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("is_taken", sa.SmallInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("worker_id", "task_id", "attempt"),
        **MYSQL,
    )


def _create_event() -> None:
    op.create_table(
        "coordination_event",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("events_json", BIG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_lease() -> None:
    op.create_table(
        "coordination_lease",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("node_id", sa.String(length=200), server_default="", nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_memory() -> None:
    op.create_table(
        "coordination_memory",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.String(length=200), server_default="", nullable=False),
        sa.Column("building", sa.String(length=200), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_queue() -> None:
    op.create_table(
        "coordination_queue",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lane", sa.SmallInteger(), nullable=False),
        sa.Column("position_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
    op.create_index("coordination_queue_order", "coordination_queue", ["lane", "position_us", "id"])


def _create_tally() -> None:
    op.create_table(
        "coordination_tally",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )


def _create_worker() -> None:
    op.create_table(
        "coordination_worker",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("running", sa.Integer(), server_default="0", nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("worker_json", BIG_TEXT, nullable=False),
        sa.Column("beat_json", BIG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
