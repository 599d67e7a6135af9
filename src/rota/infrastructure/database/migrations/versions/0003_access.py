"""Tokens, and the record of who changed what."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
SORTED_TEXT = sa.String(63).with_variant(sa.String(63, collation="C"), "postgresql")


def upgrade() -> None:
    _create_access_token()
    _create_audit_log()


def _create_access_token() -> None:
    op.create_table(
        "access_token",
        sa.Column("id", SORTED_TEXT, nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("name", sa.String(length=200), server_default="", nullable=False),
        sa.Column("role", sa.String(length=63), server_default="", nullable=False),
        sa.Column("digest", sa.String(length=64), server_default="", nullable=False),
        sa.Column("created_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("revoked_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_used_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
    op.create_index("access_token_tenant", "access_token", ["tenant_id", "id"])


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.String(length=63), server_default="default", nullable=False),
        sa.Column("at_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("actor", sa.String(length=200), server_default="", nullable=False),
        sa.Column("action", sa.String(length=63), server_default="", nullable=False),
        sa.Column("object", sa.String(length=200), server_default="", nullable=False),
        sa.Column("address", sa.String(length=255), server_default="", nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **MYSQL,
    )
    op.create_index("audit_log_tenant", "audit_log", ["tenant_id", "id"])
