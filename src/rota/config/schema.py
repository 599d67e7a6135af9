"""The store's schema, for the commands that look after it.

Alembic is imported when it is used: it takes longer than most commands run.
"""

from typing import TYPE_CHECKING

from rota.config.registry import SQL_SCHEMES, Registries, scheme_of
from rota.config.settings import Settings
from rota.domain.errors import ConfigError

if TYPE_CHECKING:
    from rota.infrastructure.database.migrate import SchemaStatus


async def upgrade_schema(settings: Settings) -> "SchemaStatus":
    """Bring the store's schema to this release. May be repeated."""
    from rota.infrastructure.database.migrate import upgrade

    return await upgrade(_sql_url(settings))


async def read_schema(settings: Settings) -> "SchemaStatus":
    """Compare the store's schema with this release."""
    from rota.infrastructure.database.migrate import status

    return await status(_sql_url(settings))


async def prepare_schema(settings: Settings) -> None:
    """Make sure that the schema is this release's: an embedded file is upgraded, a server's is the operator's to do."""
    scheme = scheme_of(settings.store.url)
    if scheme == "sqlite":
        await upgrade_schema(settings)
    elif scheme in SQL_SCHEMES:
        now = await read_schema(settings)
        if not now.is_current:
            problem = f"the store's schema is at {now.current or 'nothing'}, this release needs {now.newest}"
            raise ConfigError(problem, fix="rota db upgrade")


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
