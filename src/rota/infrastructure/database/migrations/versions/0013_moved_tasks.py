"""Where a task was moved to before its first attempt: reports count its wait from then."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("task", sa.Column("moved_due_us", sa.BigInteger(), server_default="0", nullable=False))
