"""What to tell whoever was not let in: which token it was, and what to do about it.

Who is here may have no token, one that is worn out, or one of another installation. A server that is not reached from
the folder of its store can only be given a token that somebody hands over: the line then asks for it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from rota.client.folder import TOKEN_FILE, read_token_file
from rota.domain.access import find_token_id
from rota.domain.errors import DeniedError, RotaError
from rota.interfaces.cli.connect import choose_place
from rota.interfaces.cli.typed import Typed

PASTE = "read -rs ROTA_TOKEN && export ROTA_TOKEN"  # shows nothing, and leaves nothing in the shell's history
MAKE = "export ROTA_TOKEN=$({command})"
KEPT_HERE = (Path("rota.yaml"), Path(".rota/rota.db"))  # by which this folder knows a store
NAMED_BY = ("ROTA_STORE__URL", "ROTA_CONFIG")


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the token was, and whose server it was shown to."""

    url: str
    is_local: bool
    served: str | None  # where the `rota dev` of this folder is
    in_environment: str
    in_file: str | None  # which is for servers of this machine alone

    @property
    def shown(self) -> str:
        return self.in_environment or self.in_file or ""

    @property
    def source(self) -> str:
        return "ROTA_TOKEN" if self.in_environment else str(TOKEN_FILE)

    @property
    def is_for_another(self) -> bool:
        """Whether this folder has a server of its own, and this is not it."""
        return self.served is not None and self.served != self.url


def advise(error: RotaError, typed: Typed, *, role: str) -> tuple[str, str]:
    """The problem with where the token came from, and what to type next."""
    scene = _look(typed)
    # Of every token that is not good the server says the same, and in the words of HTTP.
    told = str(error).rstrip(".") if isinstance(error, DeniedError) else f"{scene.url} wants a valid token"
    if scene.in_environment and scene.in_file not in (None, scene.in_environment) and not scene.is_for_another:
        return f"{told}; the token came from ROTA_TOKEN, and {TOKEN_FILE} has another", "unset ROTA_TOKEN"
    if isinstance(error, DeniedError):
        return _ask_for_another(f"{told}; the token came from {scene.source}", typed, scene=scene, role=role)
    if not scene.in_environment and scene.is_for_another:
        problem = f"{told}; it is another server than the rota dev of this folder, which is at {scene.served}"
        return problem, typed.without_url()
    if not scene.shown:
        told = f"{told}; there is no token in ROTA_TOKEN nor in {TOKEN_FILE}"
    elif not scene.in_environment and scene.served is None:
        problem = f"the one that came from {TOKEN_FILE} is of a rota dev in this folder, which does not run"
        return f"{told}; {problem}", "rota dev"
    elif find_token_id(scene.shown) is None:
        told = f"{told}; what came from {scene.source} is no token: one begins with rota_"
    else:
        told = f"{told}; the one that came from {scene.source} it does not know, or no longer"
    return _ask_for_another(told, typed, scene=scene, role=role)


def _ask_for_another(problem: str, typed: Typed, *, scene: _Scene, role: str) -> tuple[str, str]:
    """Make a token where the store of a server of this machine is at hand; else somebody else has to."""
    is_known = any(path.exists() for path in KEPT_HERE) or any(name in os.environ for name in NAMED_BY)
    if scene.is_local and (is_known or typed.find("--config")):
        command = typed.beside(f"rota token create cli --role {role} --direct")
        return f"{problem}; one can be made in the store that the settings here name", MAKE.format(command=command)
    where = "go to the folder of the rota dev that serves there, or " if scene.is_local else ""
    asking = f"{where}ask whoever runs the server for one with role {role}, and paste it"
    return f"{problem}; {asking}", PASTE


def _look(typed: Typed) -> _Scene:
    from rota.client.place import find_served

    place = choose_place(typed.find("--url"), timeout="1s")
    return _Scene(
        url=place.url,
        is_local=place.is_local,
        served=find_served(),
        in_environment=os.environ.get("ROTA_TOKEN", "").strip(),
        in_file=read_token_file() if place.is_local else None,
    )
