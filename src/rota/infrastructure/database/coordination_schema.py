"""The tables of coordination: hints that can be rebuilt from the store, so all of them may be emptied at any moment.

Nothing here is seeded: a row that is missing, because the memory is new or was lost, is made when it is first needed.
No row has a tenant; what is coordinated is the cluster's work, and the tenant stands in the task.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, SmallInteger, String, Table

from rota.infrastructure.database.columns import LONG, MYSQL, big_text, id_column, number
from rota.infrastructure.database.schema import metadata

lease = Table(  # one row: who leads
    "coordination_lease",
    metadata,
    id_column(),
    number("number"),
    Column("node_id", String(LONG), nullable=False, server_default=""),  # empty: the last leader resigned
    number("expires_us"),
    **MYSQL,
)

memory = Table(  # one row: the name of this memory, and of the one that is being built
    "coordination_memory",
    metadata,
    id_column(),
    Column("generation", String(LONG), nullable=False, server_default=""),
    Column("building", String(LONG), nullable=False, server_default=""),
    **MYSQL,
)

tally = Table(  # one row for each number that is counted or remembered
    "coordination_tally",
    metadata,
    id_column(),
    number("number"),
    **MYSQL,
)

worker = Table(
    "coordination_worker",
    metadata,
    id_column(),
    Column("running", Integer, nullable=False, server_default="0"),
    number("expires_us"),
    Column("worker_json", big_text(), nullable=False),
    Column("beat_json", big_text(), nullable=False),  # empty until the first heartbeat
    **MYSQL,
)

queue = Table(  # one row for each task that waits
    "coordination_queue",
    metadata,
    id_column(),
    Column("lane", SmallInteger, nullable=False),  # the priority when ready, -1 until then
    number("position_us"),  # when it became ready; until then, when it is due
    Column("priority", SmallInteger, nullable=False),
    Index("coordination_queue_order", "lane", "position_us", "id"),
    **MYSQL,
)

delivery = Table(  # no second index: the few rows of one worker lie side by side, and being taken changes one in place
    "coordination_delivery",
    metadata,
    Column("worker_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    number("position_us"),
    Column("is_taken", SmallInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("worker_id", "task_id", "attempt"),
    **MYSQL,
)

cancel = Table(
    "coordination_cancel",
    metadata,
    id_column(),  # of the task
    number("expires_us"),
    Index("coordination_cancel_expiry", "expires_us"),
    **MYSQL,
)

lock = Table(  # one row for each name that is held, or was lately
    "coordination_lock",
    metadata,
    Column("name", String(LONG), primary_key=True),
    Column("owner", String(LONG), nullable=False, server_default=""),  # empty: it was released
    number("fence"),
    number("expires_us"),
    Index("coordination_lock_expiry", "expires_us"),
    **MYSQL,
)

event = Table(  # one row for each batch of events
    "coordination_event",
    metadata,
    id_column(),
    number("at_us"),
    Column("events_json", big_text(), nullable=False),
    **MYSQL,
)
