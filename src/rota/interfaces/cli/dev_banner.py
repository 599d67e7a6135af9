"""What `rota dev` says when it is ready: where it is, what it can do, and what to type next."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rota.__about__ import __version__
from rota.interfaces.cli.connect import TOKEN_FILE

if TYPE_CHECKING:
    from rota.sdk.tasks import TaskFunction

USUAL_PORT = 8420
MEMORY = "memory://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """All that the words depend on."""

    address: str
    token: str = field(repr=False)
    place: str
    functions: "Sequence[TaskFunction[..., Any]]"
    asked_port: int  # 0: any
    grpc_address: str | None = None

    def __str__(self) -> str:
        types = ", ".join(function.definition.type for function in self.functions)
        return f"""\
Rota {__version__} runs in this process. Ctrl-C ends it. Not for production: see rota server.

  API     {self.address}/api/v1{self._moved()}{self._grpc()}
  Docs    {self.address}/docs
  Data    {"in memory, gone at the end" if self.is_ephemeral else self.place.removeprefix("sqlite:///")}
  Types   {types}
  Token   {self._kept()}
{self.token}

Next, in another terminal in this folder:
{self._next()}
"""

    @property
    def is_ephemeral(self) -> bool:
        return self.place == MEMORY

    def _grpc(self) -> str:
        return "" if self.grpc_address is None else f"\n  gRPC    {self.grpc_address}"

    def _moved(self) -> str:
        port = int(self.address.rpartition(":")[2])
        is_moved = self.asked_port not in (0, port)
        return f" (port {self.asked_port} is taken, so it is {port})" if is_moved else ""

    def _kept(self) -> str:
        kept = f"(also in {TOKEN_FILE}, where commands in this folder find it)"
        return "(kept nowhere, as the data)" if self.is_ephemeral else kept

    def _next(self) -> str:
        lines = [suggest(self.functions), "rota task ls", "rota top"]
        if self.is_ephemeral or os.environ.get("ROTA_TOKEN", self.token) != self.token:
            lines.insert(0, f"export ROTA_TOKEN={self.token}")
        if not self.address.endswith(f":{USUAL_PORT}"):
            lines.insert(0, f"export ROTA_URL={self.address}")
        return "\n".join(f"  {line}" for line in lines)


def suggest(functions: "Iterable[TaskFunction[..., Any]]") -> str:
    """A submit that works as it is, if there is a task that needs no arguments; else one to fill in."""
    needs = {function.definition.type: _required(function) for function in functions}
    chosen = min(needs, key=lambda task_type: len(needs[task_type]))
    blanks = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: …" for name in needs[chosen])
    payload = f" --payload '{{{blanks}}}'" if blanks else ""
    return f"rota task submit {chosen}{payload} --wait"


def _required(function: "TaskFunction[..., Any]") -> list[str]:
    from rota.domain.errors import InvalidError
    from rota.sdk.payload import read_arguments

    try:
        arguments = read_arguments(function.function)
    except InvalidError:  # the task itself will say so, with its reason
        return []
    return [name for name in arguments.types if name in arguments.required]
