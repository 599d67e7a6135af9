"""The processes of the cluster."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "node",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("roles", sa.String(length=200), server_default="", nullable=False),
        sa.Column("version", sa.String(length=63), server_default="", nullable=False),
        sa.Column("address", sa.String(length=255), server_default="", nullable=False),
        sa.Column("started_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("seen_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
