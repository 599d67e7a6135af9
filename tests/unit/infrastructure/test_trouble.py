"""Which error means what: each row was seen from the server it names."""

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from rota.infrastructure.database.trouble import Trouble, diagnose


class PostgresError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        (Exception(1213, "Deadlock found"), Trouble.CONTENTION),
        (Exception(1205, "Lock wait timeout exceeded"), Trouble.CONTENTION),
        (Exception(2013, "Lost connection during query"), Trouble.LOST),
        (Exception(1053, "Server shutdown in progress"), Trouble.LOST),
        (Exception(1040, "Too many connections"), Trouble.LOST),
        (Exception(1290, "running with the --read-only option"), Trouble.READ_ONLY),
        (Exception(1792, "Cannot execute statement in a READ ONLY transaction"), Trouble.READ_ONLY),
        (Exception(1062, "Duplicate entry"), Trouble.DUPLICATE),
        (Exception(1048, "Column cannot be null"), Trouble.OTHER),
        (Exception(1146, "Table doesn't exist"), Trouble.SCHEMA),
        (Exception(1114, "The table is full"), Trouble.LOST),
        (Exception(1969, "Query execution was interrupted (max_statement_time exceeded)"), Trouble.LOST),
        (Exception(1064, "You have an error in your SQL syntax"), Trouble.OTHER),
        (PostgresError("40P01"), Trouble.CONTENTION),
        (PostgresError("40001"), Trouble.CONTENTION),
        (PostgresError("57P01"), Trouble.LOST),
        (PostgresError("53300"), Trouble.LOST),
        (PostgresError("08006"), Trouble.LOST),
        (PostgresError("25006"), Trouble.READ_ONLY),
        (PostgresError("23505"), Trouble.DUPLICATE),
        (PostgresError("23502"), Trouble.OTHER),
        (PostgresError("42P01"), Trouble.SCHEMA),
        (PostgresError("42601"), Trouble.OTHER),
        (Exception("database is locked"), Trouble.CONTENTION),
        (Exception("attempt to write a readonly database"), Trouble.READ_ONLY),
        (Exception("UNIQUE constraint failed: task.id"), Trouble.DUPLICATE),
        (Exception("database or disk is full"), Trouble.LOST),
        (Exception("no such table: task"), Trouble.SCHEMA),
        (Exception(), Trouble.OTHER),
    ],
)
def test_a_driver_error_is_told_by_its_code(original: Exception, expected: Trouble) -> None:
    assert diagnose(OperationalError("SELECT 1", {}, original)) is expected


def test_a_connection_that_sqlalchemy_gave_up_is_lost() -> None:
    gone = DBAPIError("SELECT 1", {}, Exception(9999, "whatever"), connection_invalidated=True)
    assert diagnose(gone) is Trouble.LOST


def test_waiting_too_long_is_lost_whoever_waited() -> None:
    assert diagnose(TimeoutError()) is Trouble.LOST
    assert diagnose(ConnectionRefusedError()) is Trouble.LOST
    assert diagnose(PoolTimeoutError("pool exhausted")) is Trouble.LOST


def test_a_defect_of_ours_is_not_mistaken_for_the_network() -> None:
    assert diagnose(StatementError("bad parameter", "SELECT 1", {}, ValueError())) is Trouble.OTHER
