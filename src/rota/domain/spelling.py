"""What somebody may have meant by a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def find_near(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that looks most like this one, in whatever case either is written."""
    names = {name.lower(): name for name in known}
    near = get_close_matches(given[:100].lower(), list(names), n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def hint(given: str, known: Iterable[str]) -> str:
    """The name that may be meant, or else all that there are."""
    names = list(known)
    begun = [name for name in names if given and name.startswith(f"{given.lower()}_")]  # `every` for every_seconds
    near = begun[0] if len(begun) == 1 else find_near(given, names)
    return f"did you mean {near}?" if near is not None else f"known are {', '.join(names)}"
