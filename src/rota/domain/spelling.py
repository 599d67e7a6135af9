"""What somebody may have meant by a name that is not known."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile

LOOKED_AT = 10  # of the names that are near: those that are as near as the nearest are among them


def find_near(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that looks most like this one, in whatever case either is written; of several, one that begins
    like it."""
    names = {name.lower(): name for name in known}
    typed = given[:100].lower()
    near = get_close_matches(typed, list(names), n=LOOKED_AT, cutoff=cutoff)
    likeness = {name: (SequenceMatcher(None, name, typed).ratio(), _count_begun(name, typed)) for name in near}
    return names[max(likeness, key=likeness.__getitem__)] if near else None


def _count_begun(name: str, typed: str) -> int:
    """How many characters both begin with: who types a name begins it right."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, typed, strict=False)))


def hint(given: str, known: Iterable[str]) -> str:
    """The name that may be meant, or else all that there are."""
    names = list(known)
    begun = [name for name in names if given and name.startswith(f"{given.lower()}_")]  # `every` for every_seconds
    near = begun[0] if len(begun) == 1 else find_near(given, names)
    return f"did you mean {near}?" if near is not None else f"known are {', '.join(names)}"
