"""A past: ended tasks with their logs, made inside the database, so that a benchmark starts in an old installation."""

import sqlite3
from urllib.parse import urlsplit

from bench.places import Place

CHUNK = 100_000
SPACING = 4096  # between ids, as one node gives out a few in a millisecond
_TASK = (
    "INSERT INTO task (id,status,attempt,version,worker_id,term,started_us,completed_us,created_us,type,payload_json) "
)
_LOG = "INSERT INTO task_logs (task_id,seq,from_status,to_status,attempt,worker_id,at_us) "
_STEPS = ((1, 0, 2), (2, 2, 3), (3, 3, 5))  # version, from, to: created, granted, succeeded
_PAYLOAD = '{"to":"someone@example.com","subject":"about one hundred bytes","body":"so that it looks like real work"}'
_NUMBERS = {
    "mariadb": "(SELECT seq AS n FROM seq_{first}_to_{last}) s",
    "postgresql": "generate_series({first}::bigint, {last}::bigint) AS s(n)",
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n+1 FROM s WHERE n < {last}) SELECT n FROM s)",
}


def write_history(place: Place, url: str, *, tasks: int) -> None:
    """Fill the database at `url` with this many ended tasks, older than any that the benchmark adds."""
    for first in range(1, tasks + 1, CHUNK):
        numbers = _NUMBERS[place.name].format(first=first, last=min(first + CHUNK - 1, tasks))
        for statement in _statements(numbers):
            _execute(place, url, statement=statement)


def _statements(numbers: str) -> list[str]:
    task = f"SELECT n*{SPACING},5,1,3,7,1,1,2,1,'send_email','{_PAYLOAD}' FROM {numbers}"
    logs = [
        f"SELECT n*{SPACING},{version}*4294967296,{before},{after},1,7,1 FROM {numbers}"
        for version, before, after in _STEPS
    ]
    return [_TASK + task, *(_LOG + log for log in logs)]


def _execute(place: Place, url: str, *, statement: str) -> None:
    if place.server is not None:
        place.server.execute(statement, database=urlsplit(url).path[1:])
        return
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)
    connection.close()
