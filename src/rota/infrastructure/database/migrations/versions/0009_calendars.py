"""Calendars, and which schedules name them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0009"
down_revision = "0008"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    big_text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    sorted_text = sa.String(200).with_variant(sa.String(200, collation="C"), "postgresql")
    op.create_table(
        "calendar",
        sa.Column("tenant_id", sa.String(63), nullable=False),
        sa.Column("name", sorted_text, nullable=False),
        sa.Column("revision", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("calendar_json", big_text, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "name"),
        **MYSQL,
    )
    op.create_table(
        "calendar_use",
        sa.Column("tenant_id", sa.String(63), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("type", sorted_text, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "name", "type"),
        **MYSQL,
    )
    op.create_index("calendar_use_type", "calendar_use", ["tenant_id", "type"])
