"""Coordination without a log of changes on PostgreSQL: what a crash empties is rebuilt from the store."""

from alembic import op

revision = "0011"
down_revision = "0010"

TABLES = ("lease", "memory", "tally", "worker", "queue", "delivery", "cancel", "event")


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f"ALTER TABLE coordination_{table} SET UNLOGGED")
