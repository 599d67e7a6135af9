"""Names that no other test uses."""

from uuid import uuid4


def fresh_name(prefix: str) -> str:
    """A new name for a database, a key prefix or a file."""
    return f"{prefix}_{uuid4().hex[:12]}"
