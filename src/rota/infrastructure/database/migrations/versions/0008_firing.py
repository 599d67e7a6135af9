"""What firing keeps of a schedule: its runs, its last run, and the beginning of a range of skipped targets."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("task_config", sa.Column("runs", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("task_config", sa.Column("last_run", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("schedule_occurrence", sa.Column("since_us", sa.BigInteger(), server_default="0", nullable=False))
    op.create_index("task_config_fires", "task_config", ["is_enabled", "next_fire_us"])
    op.drop_index("task_config_due", table_name="task_config")
