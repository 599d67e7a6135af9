"""What a database error means for us. The only module that knows error numbers.

Sources: MySQL/MariaDB server and client error numbers, PostgreSQL SQLSTATE classes, SQLite messages.
"""

from enum import Enum, auto

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError


class Trouble(Enum):
    CONTENTION = auto()  # deadlock, lock wait, serialisation: rolled back, run the whole transaction again
    LOST = auto()  # connection gone or refused, or the answer came too late: outcome unknown
    READ_ONLY = auto()  # a demoted primary: every pooled connection may point to it
    DUPLICATE = auto()  # a unique key stood in the way
    SCHEMA = auto()  # a table or column that this release needs is not there
    OTHER = auto()  # a defect of ours or of the installation


_MYSQL_MEANING = {
    **dict.fromkeys((1205, 1213, 3572), Trouble.CONTENTION),
    **dict.fromkeys((1040, 1053, 1080, 1152, 1158, 1159, 1160, 1161, 1184), Trouble.LOST),  # refused or cut off
    **dict.fromkeys((1927, 2002, 2003, 2006, 2013, 2014, 2055, 4031), Trouble.LOST),  # the connection is gone
    **dict.fromkeys((1021, 1114), Trouble.LOST),  # the disk or the table is full
    **dict.fromkeys((1047, 1203, 1226), Trouble.LOST),  # not ready, or too many connections of this user
    **dict.fromkeys((1317, 1969, 3024), Trouble.LOST),  # interrupted, or past the statement's time
    **dict.fromkeys((1290, 1792, 1836, 3100), Trouble.READ_ONLY),
    **dict.fromkeys((1062, 1586), Trouble.DUPLICATE),
    **dict.fromkeys((1054, 1146), Trouble.SCHEMA),
}
_POSTGRES_LOST_CLASSES = ("08", "57", "53")  # connection, operator intervention, out of resources
_POSTGRES_MEANING = {
    **dict.fromkeys(("40001", "40P01", "55P03"), Trouble.CONTENTION),
    "25006": Trouble.READ_ONLY,
    "25P03": Trouble.LOST,  # it stood still in the middle of a transaction, and was cut off
    "23505": Trouble.DUPLICATE,
    **dict.fromkeys(("42P01", "42703"), Trouble.SCHEMA),
}


def diagnose(error: BaseException) -> Trouble:
    """What to do about an error that came out of a transaction."""
    if isinstance(error, PoolTimeoutError | OSError | TimeoutError):
        return Trouble.LOST
    if not isinstance(error, DBAPIError):
        return Trouble.OTHER
    if error.connection_invalidated:
        return Trouble.LOST
    return _diagnose_code(error)


def _diagnose_code(error: DBAPIError) -> Trouble:
    # MySQL errors have both a number and a state; the number says more, so it is asked first.
    code = error.orig.args[0] if error.orig is not None and error.orig.args else None
    if isinstance(code, int):
        return _diagnose_mysql(code)
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return _diagnose_postgres(str(state))
    return _diagnose_message(str(error.orig).lower())


def _diagnose_postgres(state: str) -> Trouble:
    if state.startswith(_POSTGRES_LOST_CLASSES):
        return Trouble.LOST
    return _POSTGRES_MEANING.get(state, Trouble.OTHER)


def _diagnose_mysql(code: int) -> Trouble:
    return _MYSQL_MEANING.get(code, Trouble.OTHER)


_SQLITE_WORDS = {
    "locked": Trouble.CONTENTION,
    "busy": Trouble.CONTENTION,
    "readonly": Trouble.READ_ONLY,
    "unique constraint": Trouble.DUPLICATE,
    "no such table": Trouble.SCHEMA,
    "no such column": Trouble.SCHEMA,
    "disk": Trouble.LOST,
    "unable to open": Trouble.LOST,
    "connection": Trouble.LOST,
}


def _diagnose_message(message: str) -> Trouble:
    return next((trouble for words, trouble in _SQLITE_WORDS.items() if words in message), Trouble.OTHER)
