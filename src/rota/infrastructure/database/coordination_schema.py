"""The tables of coordination: hints that can be rebuilt from the store, so all of them may be emptied at any moment.

Nothing here is seeded: a row that is missing, because the memory is new or was lost, is made when it is first needed.
No row has a tenant; what is coordinated is the cluster's work, and the tenant stands in the task.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, SmallInteger, String, Table

from rota.infrastructure.database.schema import _MYSQL, LONG, _big_text, _id, _number, metadata

lease = Table(  # one row: who leads
    "coordination_lease",
    metadata,
    _id(),
    _number("number"),
    Column("node_id", String(LONG), nullable=False, server_default=""),  # empty: the last leader resigned
    _number("expires_us"),
    **_MYSQL,
)

memory = Table(  # one row: the name of this memory, and of the one that is being built
    "coordination_memory",
    metadata,
    _id(),
    Column("generation", String(LONG), nullable=False, server_default=""),
    Column("building", String(LONG), nullable=False, server_default=""),
    **_MYSQL,
)

tally = Table(  # one row for each number that is counted or remembered
    "coordination_tally",
    metadata,
    _id(),
    _number("number"),
    **_MYSQL,
)

worker = Table(
    "coordination_worker",
    metadata,
    _id(),
    Column("running", Integer, nullable=False, server_default="0"),
    _number("expires_us"),
    Column("worker_json", _big_text(), nullable=False),
    Column("beat_json", _big_text(), nullable=False),  # empty until the first heartbeat
    **_MYSQL,
)

queue = Table(  # one row for each task that waits
    "coordination_queue",
    metadata,
    _id(),
    Column("lane", SmallInteger, nullable=False),  # the priority when ready, -1 until then
    _number("position_us"),  # when it became ready; until then, when it is due
    Column("priority", SmallInteger, nullable=False),
    Index("coordination_queue_order", "lane", "position_us", "id"),
    **_MYSQL,
)

delivery = Table(  # no second index: the few rows of one worker lie side by side, and being taken changes one in place
    "coordination_delivery",
    metadata,
    Column("worker_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    _number("position_us"),
    Column("is_taken", SmallInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("worker_id", "task_id", "attempt"),
    **_MYSQL,
)

cancel = Table(
    "coordination_cancel",
    metadata,
    _id(),  # of the task
    _number("expires_us"),
    Index("coordination_cancel_expiry", "expires_us"),
    **_MYSQL,
)

event = Table(  # one row for each batch of events
    "coordination_event",
    metadata,
    _id(),
    _number("at_us"),
    Column("events_json", _big_text(), nullable=False),
    **_MYSQL,
)
