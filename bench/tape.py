"""All that a piece of work sends to its servers, written down message by message, to be sent again without our code."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import hiredis
from asyncmy.connection import Connection as MariaDbConnection

from bench.recording import Recording, Statement, recording
from rota.infrastructure.coordination.redis_wire import Wire

COMMAND = "_execute_command"  # what the driver sends every message with; not in its stub


class RedisMessage(NamedTuple):
    """Commands in one piece, as bytes."""

    packed: bytes
    answers: int


class MariaDbMessage(NamedTuple):
    """One or more statements as the driver sent them; COMMIT is one."""

    text: bytes
    commits_itself: bool


class Transaction(NamedTuple):
    """Statements that go to another database's driver as they are."""

    statements: Sequence[Statement]


Message = RedisMessage | MariaDbMessage | Transaction


@dataclass(slots=True)
class Tape:
    """Messages in the order in which they were sent; those of databases other than MariaDB first."""

    messages: list[Message] = field(default_factory=list)
    statements: Recording = field(default_factory=Recording)

    def cut(self) -> list[Message]:
        """What was sent since the last cut."""
        sent, self.messages = self.messages, []
        return [*map(Transaction, self.statements.cut()), *sent]


@contextmanager
def taping(*, is_mariadb: bool) -> Iterator[Tape]:
    """Write down what this process sends to Redis and to its database, one call after the other."""
    tape = Tape()
    ask, command = Wire.ask, getattr(MariaDbConnection, COMMAND)

    async def ask_taped(wire: Wire, commands: Sequence[Sequence[Any]]) -> list[Any]:
        packed = b"".join(hiredis.pack_command(tuple(parts)) for parts in commands)
        tape.messages.append(RedisMessage(packed, len(commands)))
        return await ask(wire, commands)

    async def command_taped(driver: Any, *args: Any) -> None:
        sql = args[-1]
        tape.messages.append(MariaDbMessage(sql.encode() if isinstance(sql, str) else sql, driver.autocommit_mode))
        await command(driver, *args)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Wire, "ask", ask_taped))
        if is_mariadb:
            stack.enter_context(patch.object(MariaDbConnection, COMMAND, command_taped))
        else:
            tape.statements = stack.enter_context(recording())
        yield tape
