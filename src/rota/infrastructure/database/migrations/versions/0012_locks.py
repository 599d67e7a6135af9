"""Locks by name. On PostgreSQL with a log of changes, other than the rest of coordination: a crash must not end one."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "coordination_lock",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(200), server_default="", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **MYSQL,
    )
    op.create_index("coordination_lock_expiry", "coordination_lock", ["expires_us"])
