"""What `rota dev` says when it is ready: where it is, what it can do, and what to type next."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rota.__about__ import __version__
from rota.client.folder import TOKEN_FILE

if TYPE_CHECKING:
    from rota.sdk.tasks import TaskFunction

USUAL_PORT = 8420
MEMORY = "memory://"
USUAL_TIMEOUT = timedelta(minutes=5)  # the default of the setting task.timeout
BLANK, TEXT_BLANK = "…", '"…"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """All that the words depend on."""

    address: str
    token: str = field(repr=False)
    place: str
    functions: "Sequence[TaskFunction[..., Any]]"
    asked_port: int  # 0: any
    console: str | None = None  # a link that opens it once
    grpc_address: str | None = None
    service: str = ""  # what there is to say of the sample service
    service_type: str = ""  # of the tasks that it does
    scheduled_type: str = ""  # which no function has, and which fires by itself

    def __str__(self) -> str:
        own = [function.definition.type for function in self.functions]
        types = ", ".join(filter(None, [*own, self.service_type, self.scheduled_type]))
        return f"""\
Rota {__version__} runs in this process. Ctrl-C ends it. Not for production: see rota server.

{self._console()}  API     {self.address}/api/v1{self._moved()}{self._grpc()}
  Docs    {self.address}/docs
  Data    {"in memory, gone at the end" if self.is_ephemeral else self.place.removeprefix("sqlite:///")}
  Types   {types}{self._service()}
  Token   {self._kept()}
{self.token}

Next, in another terminal in this folder:
{self._next()}
"""

    @property
    def is_ephemeral(self) -> bool:
        return self.place == MEMORY

    def _console(self) -> str:
        return "" if self.console is None else f"  Console {self.console} (good once; then log in with the token)\n"

    def _grpc(self) -> str:
        return "" if self.grpc_address is None else f"\n  gRPC    {self.grpc_address}"

    def _service(self) -> str:
        return f"\n  Service {self.service}" if self.service else ""

    def _moved(self) -> str:
        port = int(self.address.rpartition(":")[2])
        is_moved = self.asked_port not in (0, port)
        return f" (port {self.asked_port} is taken, so it is {port})" if is_moved else ""

    def _kept(self) -> str:
        kept = f"(also in {TOKEN_FILE}, where commands in this folder find it)"
        return "(kept nowhere, as the data)" if self.is_ephemeral else kept

    def _next(self) -> str:
        called = [f"rota task submit {self.service_type} --wait"] if self.service_type else []
        lines = [suggest(self.functions), *called, "rota task ls", "rota top"]
        if self.is_ephemeral or os.environ.get("ROTA_TOKEN", self.token) != self.token:
            lines.insert(0, f"export ROTA_TOKEN={self.token}")
        is_usual = self.address.endswith(f":{USUAL_PORT}")
        if not (self.is_ephemeral or is_usual):
            lines.append(f"in other folders, first: export ROTA_URL={self.address} ROTA_TOKEN={self.token}")
        is_found = not self.is_ephemeral or is_usual  # by commands in this folder that are told nothing
        if os.environ.get("ROTA_URL", self.address if is_found else "").rstrip("/") != self.address:
            lines.insert(0, f"export ROTA_URL={self.address}")
        if shutil.which("rota") is None and (activation := find_activation()):
            lines.insert(0, f"source {quote(activation)}")
        return "\n".join(f"  {line}" for line in lines)


def find_activation() -> str:
    """What puts the commands of this environment into the path of a shell; empty: nothing does."""
    script = Path(sys.prefix, "bin", "activate")
    if not script.is_file():
        return ""
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)


def suggest(functions: "Iterable[TaskFunction[..., Any]]") -> str:
    """A submit that works as it is, if there is a task that needs no arguments; else one to fill in. What may take
    longer than tasks usually do is nothing to begin with."""
    needs = {function: _list_blanks(function) for function in functions}
    chosen = min(needs, key=lambda function: (_is_long(function), len(needs[function])))
    blanks = ", ".join(needs[chosen])
    payload = f" --payload '{{{blanks}}}'" if blanks else ""
    return f"rota task submit {chosen.definition.type}{payload} --wait"


def _is_long(function: "TaskFunction[..., Any]") -> bool:
    timeout = function.definition.timeout
    return timeout is not None and timeout > USUAL_TIMEOUT


def _list_blanks(function: "TaskFunction[..., Any]") -> list[str]:
    """The arguments that it cannot do without, as keys of a payload; text may stay as it is here."""
    from rota.domain.errors import InvalidError
    from rota.sdk.payload import read_arguments

    try:
        arguments = read_arguments(function.function)
    except InvalidError:  # the task itself will say so, with its reason
        return []
    needed = {name: kind for name, kind in arguments.types.items() if name in arguments.required}
    return [
        f"{json.dumps(name, ensure_ascii=False)}: {TEXT_BLANK if kind is str else BLANK}"
        for name, kind in needed.items()
    ]
