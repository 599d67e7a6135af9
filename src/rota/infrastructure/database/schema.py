"""The tables. A task's row is written once and once more at its end; in between only its narrow live row changes.

Why three tables for a task (measured, ADR-0004): what changes is fixed-width and in no secondary index, so a grant
rewrites 100 bytes in place; the wide row with the payload is touched twice in its life; a result is appended only when
there is one. The cost of a task therefore does not grow with the history.

Conventions: instants are microseconds since 1970 in a BIGINT (`*_us`), 0 where there is none; states are small codes
(`codes.py`); text that holds JSON ends in `_json`; every row has its tenant.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)

from rota.infrastructure.database.columns import (
    LONG,
    MYSQL,
    SHORT,
    big_text,
    count,
    id_column,
    number,
    small,
    sorted_text,
    tenant,
    text,
)

metadata = MetaData()

task = Table(
    "task",
    metadata,
    id_column(),
    small("status"),  # 0 while the task is live; its state is in task_live
    small("priority"),
    count("attempt"),
    count("version", 1),
    count("retry_count"),
    number("worker_id"),
    number("term"),
    number("started_us"),
    number("completed_us"),
    number("created_us"),
    number("scheduled_us"),
    number("moved_due_us"),  # where it was moved to before its first attempt
    number("timeout_us", 300_000_000),
    number("rerun_of"),
    tenant(),
    Column("type", String(LONG), nullable=False),
    text("name", LONG),
    text("retry_json", 255),  # empty: the standard policy
    Column("retry_rules_json", Text, nullable=True),  # which failures are tried again, and for how long in all
    Column("metadata_json", big_text(), nullable=True),
    Column("payload_json", big_text(), nullable=False),
    **MYSQL,
)

task_live = Table(
    "task_live",
    metadata,
    id_column(),
    small("status", 2),
    small("priority"),
    count("attempt"),
    count("version", 1),
    count("retry_count"),
    number("due_us"),
    number("started_us"),
    number("worker_id"),
    number("term"),
    number("last_lost_us"),
    number("prior_lost_us"),
    tenant(),
    postgresql_with={"fillfactor": 70},  # room for updates in place
    **MYSQL,
)

task_result = Table(
    "task_result",
    metadata,
    id_column("task_id"),
    tenant(),
    small("status"),
    Column("result_json", big_text(), nullable=True),
    Column("error_json", big_text(), nullable=True),
    Index("task_result_status", "status", "task_id"),  # finds the failures among millions of successes
    **MYSQL,
)

task_count = (
    Table(  # how many tasks ended how; each transaction adds to one of a few shards, so nobody queues for a row
        "task_count",
        metadata,
        Column("tenant_id", String(SHORT), nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("shard", SmallInteger, nullable=False),
        number("number"),
        PrimaryKeyConstraint("tenant_id", "status", "shard"),
        **MYSQL,
    )
)

task_key = Table(
    "task_key",
    metadata,
    tenant(),
    Column("idempotency_key", String(255), nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("tenant_id", "idempotency_key"),
    Index("task_key_task", "task_id"),
    **MYSQL,
)

task_logs = Table(
    "task_logs",
    metadata,
    Column("task_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    small("kind"),
    small("from_status"),
    small("to_status"),
    count("attempt"),
    number("worker_id"),
    number("at_us"),
    tenant(),
    Column("message", Text, nullable=True),
    Column("detail", big_text(), nullable=True),
    PrimaryKeyConstraint("task_id", "seq"),
    sqlite_with_rowid=False,  # kept in the order of its key, as the servers do: one tree instead of two
    **MYSQL,
)

task_config = Table(
    "task_config",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", sorted_text(LONG), nullable=False),
    count("revision"),
    small("is_enabled", 1),  # 2: it is, and its schedule is paused
    number("next_fire_us"),
    number("runs"),
    number("last_run"),  # the task that the schedule made last
    number("created_us"),
    number("updated_us"),
    Column("config_json", big_text(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "type"),
    Index("task_config_fires", "is_enabled", "next_fire_us"),  # what is paused is not looked at
    **MYSQL,
)

task_config_revision = Table(
    "task_config_revision",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", String(LONG), nullable=False),
    Column("revision", Integer, nullable=False),
    small("is_enabled", 1),
    number("next_fire_us"),
    number("created_us"),
    number("updated_us"),
    Column("config_json", big_text(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "type", "revision"),
    **MYSQL,
)

schedule_occurrence = Table(
    "schedule_occurrence",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("type", String(LONG), nullable=False),
    Column("fire_us", BigInteger, nullable=False),
    number("task_id"),  # 0: skipped
    text("reason", LONG),
    number("since_us"),  # it stands for all targets from here on
    PrimaryKeyConstraint("tenant_id", "type", "fire_us"),
    **MYSQL,
)

calendar = Table(
    "calendar",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("name", sorted_text(LONG), nullable=False),
    count("revision"),
    number("created_us"),
    number("updated_us"),
    Column("calendar_json", big_text(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "name"),
    **MYSQL,
)

calendar_use = Table(  # which schedules name a calendar: it cannot be deleted under them
    "calendar_use",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("name", String(LONG), nullable=False),
    Column("type", sorted_text(LONG), nullable=False),
    PrimaryKeyConstraint("tenant_id", "name", "type"),
    Index("calendar_use_type", "tenant_id", "type"),
    **MYSQL,
)

report_rollup = Table(  # what happened, summed up by the leader
    "report_rollup",
    metadata,
    Column("tenant_id", String(SHORT), nullable=False),
    Column("grain", SmallInteger, nullable=False),  # 0 quarters of an hour, 1 hours, 2 days
    Column("start_us", BigInteger, nullable=False),
    Column("type", sorted_text(LONG), nullable=False),
    Column("figures_json", Text, nullable=False),
    PrimaryKeyConstraint("tenant_id", "grain", "start_us", "type"),
    Index("report_rollup_age", "grain", "start_us"),
    **MYSQL,
)

report_progress = Table(  # one row, from the first step on
    "report_progress",
    metadata,
    id_column(),
    number("version"),
    number("swept_id"),
    number("looked_us"),
    tenant(),
    **MYSQL,
)

report_left = Table(  # tasks that lived when they were passed; the id is not greater than any of them
    "report_left",
    metadata,
    id_column(),
    Column("ids_json", big_text(), nullable=False),
    tenant(),
    **MYSQL,
)

worker_registry = Table(
    "worker_registry",
    metadata,
    id_column(),
    tenant(),
    text("name", LONG),
    text("address", 255),
    count("capacity", 1),
    count("running"),
    count("weight", 1),
    small("is_draining"),
    number("registered_us"),
    number("seen_us"),
    number("retired_us"),
    Column("types_json", Text, nullable=False),
    Column("labels_json", Text, nullable=False),
    count("wanted_capacity"),  # by an operator; counts if there was an order
    count("capacity_order"),  # how many there were
    small("wanted_draining"),
    count("draining_order"),
    **MYSQL,
)

access_token = Table(
    "access_token",
    metadata,
    Column("id", sorted_text(SHORT), primary_key=True),
    tenant(),
    text("name", LONG),
    text("role", SHORT),
    text("digest", 64),  # of the secret, which is not here
    number("created_us"),
    number("expires_us"),
    number("revoked_us"),
    number("last_used_us"),
    Index("access_token_tenant", "tenant_id", "id"),
    **MYSQL,
)

cluster_secret = Table(  # what the nodes share; each is written once, by whoever comes first
    "cluster_secret",
    metadata,
    Column("name", String(SHORT), primary_key=True),
    text("secret", 255),
    number("created_us"),
    tenant(),
    **MYSQL,
)

audit_log = Table(
    "audit_log",
    metadata,
    id_column(),
    tenant(),
    number("at_us"),
    text("actor", LONG),
    text("action", SHORT),
    text("object", LONG),
    text("address", 255),
    Column("detail", Text, nullable=True),
    text("token_id", SHORT),
    Index("audit_log_tenant", "tenant_id", "id"),
    **MYSQL,
)

leadership = Table(  # one row, seeded by the migration
    "leadership",
    metadata,
    id_column(),
    number("term"),
    text("node_id", LONG),
    number("begun_us"),
    number("confirmed_us"),
    tenant(),
    **MYSQL,
)

node = Table(  # a row for each process that lives, or died not long ago
    "node",
    metadata,
    Column("id", String(LONG), primary_key=True),
    text("roles", LONG),
    text("version", SHORT),
    text("address", 255),
    number("started_us"),
    number("seen_us"),
    tenant(),
    **MYSQL,
)

node_slot = Table(
    "node_slot",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    text("node_id", LONG),
    number("lease_number"),  # greater at each lease: also the floor of its ids
    number("leased_until_us"),
    tenant(),
    **MYSQL,
)
