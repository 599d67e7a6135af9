"""What operators ask of a worker: its capacity, and whether it drains."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

COLUMNS = {
    "wanted_capacity": sa.Integer(),
    "capacity_order": sa.Integer(),
    "wanted_draining": sa.SmallInteger(),
    "draining_order": sa.Integer(),
}


def upgrade() -> None:
    for name, kind in COLUMNS.items():
        op.add_column("worker_registry", sa.Column(name, kind, server_default="0", nullable=False))
