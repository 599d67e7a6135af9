"""Several processes of one kind as one: started together, replaced when one dies, ended together."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog

from rota.application.ports.system import Clock
from rota.domain.errors import ConfigError
from rota.infrastructure.parent_death import ask_for_signal

FIRST_PAUSE = timedelta(seconds=1)  # before a process that died is replaced; doubled while it keeps dying
LONGEST_PAUSE = timedelta(seconds=30)
UNUSABLE = 2  # the exit code of a process whose settings or app are wrong: another try would end the same
GOOD_RUN_S = 60.0  # a process that lived this long died of something new

log = structlog.get_logger(__name__)


class ProcessGroup:
    """Runs each command as a process until a signal ends them. Signals that this process gets are passed on; what has
    not ended within the time for it is killed."""

    def __init__(self, commands: Sequence[Sequence[str]], clock: Clock, *, end_within: timedelta) -> None:
        self._commands = commands
        self._clock = clock
        self._end_within = end_within
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until every process has ended after a stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        ends = await asyncio.gather(*map(self._keep, range(len(self._commands))), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def _keep(self, place: int) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started_at = self._clock.monotonic()
            code = await self._run_one(place)
            if self._stopping.is_set():
                return
            if code == UNUSABLE:
                self._stop(signal.SIGTERM)
                raise ConfigError("a worker process could not start; it has said why above")
            if self._clock.monotonic() - started_at > GOOD_RUN_S:
                pause = FIRST_PAUSE
            log.warning("process.died", place=place, exit_code=code, restart_in_s=pause.total_seconds())
            await self._pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_one(self, place: int) -> int | None:
        """Its exit code; None when the system could not start it, which is no reason to give up on the others."""
        # A session of its own: Ctrl-C in a terminal reaches this process, which tells its children once.
        # When this process is killed, which nobody can pass on, the kernel tells them to end.
        end_with_us = partial(ask_for_signal, signal.SIGTERM, parent=os.getpid())
        try:
            child = await asyncio.create_subprocess_exec(
                *self._commands[place], start_new_session=True, preexec_fn=end_with_us
            )
        except OSError as exc:
            log.error("process.not_started", place=place, error=str(exc))  # noqa: TRY400 the traceback says nothing more
            return None
        self._children[place] = child
        if self._stopping.is_set():  # meanwhile: the signal passed it by
            _tell(child, signal.SIGTERM)
        try:
            return await child.wait()
        finally:
            del self._children[place]

    async def _pause(self, pause: timedelta) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(pause))
        await asyncio.wait([stopping, sleeping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        sleeping.cancel()

    def _stop(self, number: signal.Signals) -> None:
        if not self._stopping.is_set():
            asyncio.get_running_loop().call_later(self._end_within.total_seconds(), self._kill)
        self._stopping.set()
        self._pass_on(number)

    def _kill(self) -> None:
        for place in self._children:
            log.error("process.killed", place=place, after_s=self._end_within.total_seconds())
        self._pass_on(signal.SIGKILL)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children.values():
            _tell(child, number)


def _tell(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        child.send_signal(number)
