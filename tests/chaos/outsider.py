"""Whoever finishes deferred attempts: soon, late or never, and again until there is an answer."""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rota
from rota.application.callbacks import AttemptCallbacks
from rota.domain.attempt import Succeeded, TaskResult
from rota.domain.callback import AttemptKey
from rota.domain.errors import ConflictError, FencedError, NotFoundError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.infrastructure.telemetry.history import History

LOOK_EVERY_S = 0.1
NEVER = 0.05  # of the attempts are forgotten
LATE = 0.05  # come after the attempt's timeout
SOON_S, LATE_S = 1.0, 12.0


class Outsider:
    def __init__(self, connection: rota.Rota, history: History, *, ledger: Path, chance: random.Random) -> None:
        self._connection = connection
        self._history = history
        self._ledger = ledger
        self._chance = chance
        self._read = 0  # bytes of the ledger

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for call in self._list_new():
                    group.create_task(self._work(call))
                await asyncio.sleep(LOOK_EVERY_S)

    def _list_new(self) -> Iterator[Mapping[str, Any]]:
        with self._ledger.open("rb") as ledger:
            ledger.seek(self._read)
            new = ledger.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return (call for call in map(json.loads, whole.splitlines()) if call["type"] == "deferred")

    async def _work(self, call: Mapping[str, Any]) -> None:
        drawn = self._chance.random()
        if drawn < NEVER:
            return
        await asyncio.sleep(LATE_S if drawn < NEVER + LATE else SOON_S * self._chance.random())
        which = {"task": call["task"], "attempt": call["attempt"], "nonce": call["nonce"]}
        self._history.note("call", type="ok", **which)
        while (answer := await self._say(call)) == "info":
            self._history.note("callback", type="info", **which)
            await asyncio.sleep(LOOK_EVERY_S)
        self._history.note("callback", type=answer, **which)

    async def _say(self, call: Mapping[str, Any]) -> str:
        """What became of it: ok, refused (fail), or nobody knows (info)."""
        key = AttemptKey(DEFAULT_TENANT, TaskId(int(call["task"])), call["attempt"])
        done = Succeeded(TaskResult(data=json.dumps(call["nonce"])))
        try:
            await AttemptCallbacks(self._connection._node).complete(key, done)
        except UnavailableError:
            return "info"
        except (ConflictError, FencedError, NotFoundError):
            return "fail"
        return "ok"
