"""What to tell whoever was not let in: which token it was, and what to do about it."""

import os

from rota.domain.errors import DeniedError, RotaError
from rota.interfaces.cli.connect import TOKEN_FILE, read_token_file

EXPORT = "export ROTA_TOKEN=…"


def advise(error: RotaError, *, role: str) -> tuple[str, str]:
    """The problem with where the token came from, and what to type next."""
    told = str(error).rstrip(".")
    asking = f"ask whoever runs the server for a token with role {role}"
    in_environment, in_file = os.environ.get("ROTA_TOKEN", "").strip(), read_token_file()
    if in_environment and in_file and in_environment != in_file:
        return f"{told}; the token came from ROTA_TOKEN, and {TOKEN_FILE} has another", "unset ROTA_TOKEN"
    if in_environment or in_file:
        source = "ROTA_TOKEN" if in_environment else TOKEN_FILE
        why = "" if isinstance(error, DeniedError) else ", and this server does not know it"
        return f"{told}; the token came from {source}{why}: {asking}", EXPORT
    return f"{told}; there is no token in ROTA_TOKEN nor in {TOKEN_FILE}: {asking}", EXPORT
