"""The keys that a guide lists, to be held against those that a server has."""

import re
from collections.abc import Mapping

from tests.support.cluster import REPOSITORY

GUIDES = REPOSITORY / "docs" / "guides"
KEY = re.compile(r"`(/shop/[^`]+|\{shop\}:[^`]+)`")
PLACEHOLDER = re.compile(r"\{\w[\w,]*\}|\b[A-Z]{2,}\b")  # {id} with etcd, ID with Redis


def read_key_table(guide: str) -> Mapping[re.Pattern[str], str]:
    """What stands behind each key in its row, by a pattern for what follows `/shop/` or `{shop}:`."""
    rows = re.findall(r"^\| (`(?:/shop/|\{shop\}:).*?) \| (.*) \|$", (GUIDES / guide).read_text("utf-8"), re.MULTILINE)
    return {_pattern(key): said for keys, said in rows for key in KEY.findall(keys)}


def find_row(table: Mapping[re.Pattern[str], str], key: str) -> str | None:
    return next((said for pattern, said in table.items() if pattern.fullmatch(key)), None)


def _pattern(key: str) -> re.Pattern[str]:
    name = key.removeprefix("/shop/").removeprefix("{shop}:")
    return re.compile("[^/:]+".join(map(re.escape, PLACEHOLDER.split(name))))
