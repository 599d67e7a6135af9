"""Reading the query of a request: every name known, single values given once, `metadata.KEY` gathered."""

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from rota.domain.checks import check_text
from rota.domain.errors import InvalidError
from rota.interfaces.http.body import to_struct

T = TypeVar("T")

MOST_PARAMETERS = 200
LONGEST_VALUE = 2000
METADATA = "metadata"


def parse_query(raw: bytes, wanted: type[T]) -> T:
    """The query that was sent, or `InvalidError` that names the parameter."""
    found: dict[str, Any] = {}
    lists = _list_fields(wanted) if raw else {}  # type: ignore[arg-type]  # every class can be hashed
    for name, value in _split(raw) if raw else ():
        check_text(name, value, longest=LONGEST_VALUE)
        if name.startswith(f"{METADATA}.") and METADATA in lists:
            _put(found.setdefault(METADATA, {}), name.partition(".")[2], value=value, shown=name)
        elif name == METADATA and METADATA in lists:
            raise InvalidError(name, "is given as metadata.KEY=VALUE")
        elif lists.get(name):
            found.setdefault(name, []).append(value)
        else:
            _put(found, name, value=value, shown=name)
    return to_struct(found, wanted, strict=False)


@cache
def _list_fields(wanted: Hashable) -> Mapping[str, bool]:
    """The names that are known, and whether each may be repeated."""
    kind = msgspec.inspect.type_info(wanted)
    fields = kind.fields if isinstance(kind, msgspec.inspect.StructType) else ()
    return {field.name: isinstance(field.type, msgspec.inspect.ListType) for field in fields}


def _split(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeDecodeError as exc:
        raise InvalidError("query", "is not valid UTF-8") from exc
    except ValueError as exc:
        raise InvalidError("query", f"has more than {MOST_PARAMETERS} parameters") from exc


def _put(into: dict[str, Any], name: str, *, value: str, shown: str) -> None:
    if name in into:
        raise InvalidError(shown[:100], "is given twice; give it once")
    into[name] = value
