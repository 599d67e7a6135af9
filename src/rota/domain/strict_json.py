"""JSON without what readers differ about: a key given twice, a number that is none, text that no store can hold.

Each is refused with the place where it stands, whether it was read or is about to be written.
"""

import json
import math
import re
from typing import Any

from rota.domain.errors import InvalidError

MOST_DIGITS = 1000  # the time that a number takes grows with their square
MOST_PLACE = 200  # characters of a place that is shown again
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")
_DOUBLED = object()  # stands where a key was given twice, until its place is known


def read_strictly(text: str, *, whole: str = "body", within: str = "") -> Any:
    """The value that is spelt, or `InvalidError`. `whole` is what it is called if it is no JSON at all, `within` where
    it stands itself."""
    try:
        value = json.loads(text, object_pairs_hook=_to_object, parse_int=_to_int)
        check_values(value, whole=whole, within=within)
    except (ValueError, RecursionError) as exc:
        raise InvalidError(whole, f"is not JSON: {exc}") from exc
    return value


def check_values(value: Any, *, whole: str = "body", within: str = "") -> None:
    """Refuse what JSON or a store could not hold. `within` is where the value stands itself."""
    found = _find_bad(value)
    if found is not None:
        place, problem = found
        raise InvalidError(_printable(f"{within}{place}".removeprefix(".")) or whole, problem)


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                made[key] = _DOUBLED
            seen.add(key)
    return made


def _to_int(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int(digits)


def _find_bad(value: Any) -> tuple[str, str] | None:
    """Where the first bad value is, and why. The place is spelt on the way back: most values are sound."""
    if isinstance(value, dict):
        for key, item in value.items():
            found = _find_bad(key) or _find_bad(item)
            if found is not None:
                return f".{key}{found[0]}", found[1]
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            found = _find_bad(item)
            if found is not None:
                return f"[{number}]{found[0]}", found[1]
    else:
        problem = _judge(value)
        return None if problem is None else ("", problem)
    return None


def _judge(value: Any) -> str | None:
    """What is wrong with one value that has no others in it."""
    if isinstance(value, str):
        bad = _BAD_TEXT.search(value)
        if bad is None:
            return None
        return "must not contain a NUL character" if bad[0] == "\x00" else "is not valid Unicode (lone surrogate)"
    if isinstance(value, float) and not math.isfinite(value):
        return "is NaN, which is not a JSON number" if math.isnan(value) else "is infinite or too large for a number"
    return "is given twice in one object; give it once" if value is _DOUBLED else None


def _printable(place: str) -> str:
    return place.encode("ascii", "backslashreplace").decode().replace("\x00", "\\x00")[:MOST_PLACE]
