"""`rota` on a database that lets some transactions do their work and then makes them the victim of a deadlock.

How many of a hundred stands in the file `deadlocks` of the folder it was started in, and may change at any time.
"""

import random
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from rota.infrastructure.database import runners
from rota.infrastructure.database.direct import driver_of
from rota.infrastructure.database.runners import Work
from rota.interfaces.cli.main import main

T = TypeVar("T")

PERCENT = Path("deadlocks")
CHANCE = random.Random()
run_connected = runners._run_connected


class DeadlockError(Exception):
    """As the drivers of MySQL (by the number) and of PostgreSQL (by the state) tell of one."""

    sqlstate = "40P01"


def run_hurt(engine: Engine, work: Work[T], *, writes: bool, cancels: int) -> T:
    is_victim = writes and CHANCE.uniform(0, 100) < float(PERCENT.read_text())

    def run(connection: Connection) -> T:
        result = work(connection)
        if is_victim and not getattr(driver_of(connection), "is_committed", False):
            raise OperationalError(None, None, DeadlockError(1213, "Deadlock found, says the chaos"))
        return result

    return run_connected(engine, run, writes=writes, cancels=cancels)


if __name__ == "__main__":
    runners._run_connected = run_hurt
    main()
