"""The yardstick: a task table as one would write it first, so that the cost of ours can be told as a share of it.

One wide row that is written three times: nullable columns that fill up on the way, and four indexes, three of which
hold what changes. No log rows. Microseconds differ from machine to machine; the share does not.
"""

from bench.recording import Statement
from bench.workload import BATCH, Workload

CREATE = """CREATE TABLE plain_task (
    id BIGINT PRIMARY KEY, type VARCHAR(200) NOT NULL, name VARCHAR(200), status VARCHAR(16) NOT NULL,
    priority INT NOT NULL, payload MEDIUMTEXT, worker_id VARCHAR(64), attempt INT NOT NULL, retry_count INT NOT NULL,
    created_at DATETIME(6) NOT NULL, scheduled_at DATETIME(6), started_at DATETIME(6), completed_at DATETIME(6),
    result TEXT, error TEXT,
    KEY plain_by_time (created_at), KEY plain_queue (status, priority, created_at), KEY plain_type (type, status),
    KEY plain_worker (worker_id, status)
) ENGINE=InnoDB CHARSET=utf8mb4"""

_COLUMNS = "id,type,status,priority,payload,attempt,retry_count,created_at"
_INSERT = f"INSERT INTO plain_task ({_COLUMNS}) VALUES (%s,%s,%s,%s,%s,%s,%s,%s)"  # noqa: S608 constants
_GRANT = (
    "UPDATE plain_task SET status='PROCESSING',worker_id='{worker}',attempt=1,started_at=NOW(6)"
    " WHERE id IN ({ids}) AND status='PENDING'"
)
_FINISH = (
    "UPDATE plain_task SET status='SUCCESS',completed_at=NOW(6),result='{{}}'"
    " WHERE id IN ({ids}) AND attempt=1 AND status='PROCESSING'"
)


def plain_transactions(work: Workload) -> list[list[Statement]]:
    """The same lives as those of the store, phase after phase, a transaction a batch."""
    adds = [
        [
            Statement(
                _INSERT,
                [
                    (item.task.id, item.task.spec.type, "PENDING", 0, item.task.spec.payload, 0, 0, when)
                    for item in batch
                ],
                is_many=True,
            )
        ]
        for batch in work.adds
        for when in [batch[0].task.spec.created_at.replace(tzinfo=None)]
    ]
    grants, ends = (
        [[_change(form, [step.task_id for step in batch])] for batch in batches]
        for form, batches in ((_GRANT, work.grants), (_FINISH, work.ends))
    )
    return [*adds, *grants, *ends]


def _change(form: str, ids: list[int]) -> Statement:
    worker = f"worker-{ids[0] // BATCH % 3}"
    return Statement(form.format(worker=worker, ids=",".join(map(str, ids))), None, is_many=False)
