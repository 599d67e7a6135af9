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
    OTHER = auto()  # a defect of ours or of the installation


_MYSQL_CONTENTION = {1205, 1213, 3572}
_MYSQL_LOST = {
    1040,
    1053,
    1080,
    1152,
    1158,
    1159,
    1160,
    1161,
    1184,
    1927,
    2002,
    2003,
    2006,
    2013,
    2014,
    2055,
    3024,
    4031,
}
_MYSQL_READ_ONLY = {1290, 1792, 1836, 3100}
_MYSQL_DUPLICATE = {1062, 1586}
_POSTGRES_CONTENTION = {"40001", "40P01", "55P03"}
_POSTGRES_LOST_CLASSES = ("08", "57", "53")  # connection, operator intervention, out of resources
_POSTGRES_READ_ONLY = {"25006"}
_POSTGRES_DUPLICATE = {"23505"}


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
    if state in _POSTGRES_CONTENTION:
        return Trouble.CONTENTION
    if state in _POSTGRES_READ_ONLY:
        return Trouble.READ_ONLY
    if state in _POSTGRES_DUPLICATE:
        return Trouble.DUPLICATE
    return Trouble.LOST if state.startswith(_POSTGRES_LOST_CLASSES) else Trouble.OTHER


def _diagnose_mysql(code: int) -> Trouble:
    if code in _MYSQL_CONTENTION:
        return Trouble.CONTENTION
    if code in _MYSQL_READ_ONLY:
        return Trouble.READ_ONLY
    if code in _MYSQL_DUPLICATE:
        return Trouble.DUPLICATE
    return Trouble.LOST if code in _MYSQL_LOST else Trouble.OTHER


_SQLITE_WORDS = {
    "locked": Trouble.CONTENTION,
    "busy": Trouble.CONTENTION,
    "readonly": Trouble.READ_ONLY,
    "unique constraint": Trouble.DUPLICATE,
    "disk": Trouble.LOST,
    "unable to open": Trouble.LOST,
    "connection": Trouble.LOST,
}


def _diagnose_message(message: str) -> Trouble:
    return next((trouble for words, trouble in _SQLITE_WORDS.items() if words in message), Trouble.OTHER)
