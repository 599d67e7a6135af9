"""Which failures are tried again and for how long in all, and the secrets that the nodes share."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.add_column("task", sa.Column("retry_rules_json", sa.Text(), nullable=True))
    op.create_table(
        "cluster_secret",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("secret", sa.String(length=255), server_default="", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **MYSQL,
    )
