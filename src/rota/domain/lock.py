"""What a lock may be called, and who may hold it."""

from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError

MOST_NAME = 200  # characters, of a name and of an owner


def check_lock(name: str, owner: str) -> None:
    """A name is used in keys; an owner is any text."""
    check_name("name", name, longest=MOST_NAME)
    if not check_text("owner", owner, longest=MOST_NAME):
        raise InvalidError("owner", "is empty; name who is to hold the lock")
