"""The store's schema, for the commands that look after it.

SQLAlchemy is imported when it is used: not every store is a database.
"""

from typing import TYPE_CHECKING

import structlog

from rota.config.registry import SQL_SCHEMES, Registries, scheme_of
from rota.config.settings import Settings
from rota.domain.errors import ConfigError

if TYPE_CHECKING:
    from rota.infrastructure.database.migrate import SchemaStatus

log = structlog.get_logger(__name__)


async def upgrade_schema(settings: Settings) -> "SchemaStatus":
    """Bring the store's schema to this release, unless it is later. May be repeated."""
    from rota.infrastructure.database.migrate import upgrade

    return _check(await upgrade(_sql_url(settings)))


async def read_schema(settings: Settings) -> "SchemaStatus":
    """Compare the store's schema with this release."""
    from rota.infrastructure.database.migrate import status

    return await status(_sql_url(settings))


async def prepare_schema(settings: Settings) -> None:
    """Make sure that this release can run on the schema: an embedded file is upgraded, a server's is the operator's
    to upgrade. It runs on a later one too, as whoever starts again while the release after it arrives, or is rolled
    back to."""
    scheme = scheme_of(settings.store.url)
    if scheme not in SQL_SCHEMES:
        return
    now = await upgrade_schema(settings) if scheme == "sqlite" else _check(await read_schema(settings))
    if now.is_later:
        log.warning("schema.later_than_release", schema=now.current, release=now.newest)


def tell_schema(now: "SchemaStatus") -> str:
    """Where the schema is, in words."""
    if now.is_current:
        return f"at {now.current}"
    if not now.is_later:
        return f"at {now.current or 'nothing'}, this release needs {now.newest}"
    later = f"at {now.current}, later than this release, which has {now.newest}"
    return f"{later} and runs on it" if now.can_be_used else f"{later}: {now.floor} is the least that runs on it"


def find_schema_problem(now: "SchemaStatus") -> ConfigError | None:
    """Why this release does not run on the schema; None where it does."""
    if now.can_be_used:
        return None
    problem = f"the store's schema is {tell_schema(now)}"
    if now.is_later:
        return ConfigError(problem, fix="pip install --upgrade rota")
    return ConfigError(problem, fix="rota db upgrade")


def _check(now: "SchemaStatus") -> "SchemaStatus":
    if problem := find_schema_problem(now):
        raise problem
    return now


def has_schema(settings: Settings) -> bool:
    """Whether the store is one that has a schema to look after. Raises `ConfigError` when there is no such store."""
    scheme = scheme_of(settings.store.url)
    Registries().stores.get(scheme)
    return scheme in SQL_SCHEMES


def _sql_url(settings: Settings) -> str:
    scheme = scheme_of(settings.store.url)
    if scheme not in SQL_SCHEMES:
        problem = f"store.url: a {scheme}:// store has no schema to look after"
        raise ConfigError(problem, fix=f"set store.url to one of {', '.join(SQL_SCHEMES)}")
    return settings.store.url
