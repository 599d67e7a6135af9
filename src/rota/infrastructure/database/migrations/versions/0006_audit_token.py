"""Which token was shown for a change: several may have one name."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("audit_log", sa.Column("token_id", sa.String(length=63), server_default="", nullable=False))
