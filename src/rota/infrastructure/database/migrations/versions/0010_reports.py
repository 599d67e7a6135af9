"""Sums for reports, and how far they go."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0010"
down_revision = "0009"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    big_text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    sorted_text = sa.String(200).with_variant(sa.String(200, collation="C"), "postgresql")
    op.create_table(
        "report_rollup",
        sa.Column("tenant_id", sa.String(63), nullable=False),
        sa.Column("grain", sa.SmallInteger(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("type", sorted_text, nullable=False),
        sa.Column("figures_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "grain", "start_us", "type"),
        **MYSQL,
    )
    op.create_index("report_rollup_age", "report_rollup", ["grain", "start_us"])
    op.create_table(
        "report_progress",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("swept_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("looked_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
    op.create_table(
        "report_left",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ids_json", big_text, nullable=False),
        sa.Column("tenant_id", sa.String(63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
