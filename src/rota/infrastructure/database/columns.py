"""The kinds of columns that the tables are made of."""

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, SmallInteger, String, Text
from sqlalchemy.dialects.mysql import MEDIUMTEXT

from rota.domain.ids import DEFAULT_TENANT

SHORT, LONG = 63, 200
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def big_text() -> Any:
    return Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")


def sorted_text(length: int) -> Any:
    """Text that is paged by: in the order of its code points on every database, and so served by its index."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def id_column(name: str = "id") -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def tenant() -> Column[str]:
    return Column("tenant_id", String(SHORT), nullable=False, server_default=DEFAULT_TENANT)


def number(name: str, default: int = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=str(default))


def count(name: str, default: int = 0) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=str(default))


def small(name: str, default: int = 0) -> Column[int]:
    return Column(name, SmallInteger, nullable=False, server_default=str(default))


def text(name: str, length: int) -> Column[str]:
    return Column(name, String(length), nullable=False, server_default="")
