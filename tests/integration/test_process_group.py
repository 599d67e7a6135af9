"""Several real processes as one: replaced when they die, told of signals, ended together."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rota.application.ports.system import Clock
from rota.domain.errors import ConfigError
from rota.infrastructure.process_group import GOOD_RUN_S, ProcessGroup
from rota.infrastructure.system import SystemClock
from tests.support.cluster import wait_until

# Notes in a file what happens to it. Dies at once while the file has fewer beginnings than asked for.
CHILD = """
import signal, sys, time
from pathlib import Path

journal, deaths = Path(sys.argv[1]), int(sys.argv[2])

def note(text):
    with journal.open("a") as file:
        file.write(text + "\\n")

def end(*_):
    note("term")
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGHUP, lambda *_: note("hup"))
note("began")
if journal.read_text().count("began") <= deaths:
    sys.exit(3)
while True:
    time.sleep(0.05)  # not signal.pause(): it would wait for the next signal after one that came just before it
"""


GROUP = """
import asyncio
from datetime import timedelta
from rota.infrastructure.process_group import ProcessGroup
from rota.infrastructure.system import SystemClock

asyncio.run(ProcessGroup({commands!r}, SystemClock(), end_within=timedelta(minutes=1)).run())
"""


class HurriedClock(SystemClock):
    """Sleeps are noted and over at once; each run of a process lasts as long as the test says, else no time."""

    def __init__(self, *lifetimes: float, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.pauses: list[timedelta] = []
        self._times = [time for lifetime in lifetimes for time in (0.0, lifetime)]
        self._on_sleep = on_sleep

    def monotonic(self) -> float:
        return self._times.pop(0) if self._times else 0.0

    async def sleep(self, duration: timedelta) -> None:
        self.pauses.append(duration)
        self._on_sleep()


def send(number: signal.Signals) -> None:
    """To this very process: the group's handlers are in place while it runs, and as long as the loop lives."""
    os.kill(os.getpid(), number)


def a_group(
    commands: Sequence[Sequence[str]], clock: Clock, *, end_within: timedelta = timedelta(minutes=1)
) -> ProcessGroup:
    return ProcessGroup(commands, clock, end_within=end_within)


def a_child(journal: Path, *, deaths: int = 0) -> list[str]:
    return [sys.executable, "-c", CHILD, str(journal), str(deaths)]


async def noted(journal: Path, what: str, *, times: int = 1) -> None:
    def look() -> bool:
        return journal.exists() and journal.read_text().split().count(what) >= times

    await asyncio.to_thread(wait_until, look, f"{what} in {journal.name}")


@asynccontextmanager
async def running(commands: Sequence[Sequence[str]]) -> AsyncIterator["asyncio.Task[None]"]:
    """A group at work; told to end afterwards, and waited for."""
    run = asyncio.create_task(a_group(commands, HurriedClock()).run())
    try:
        yield run
    finally:
        if not run.done():
            send(signal.SIGTERM)
        await run


async def test_a_process_that_dies_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    dying, steady = tmp_path / "dying", tmp_path / "steady"
    async with running([a_child(dying, deaths=2), a_child(steady)]):
        await noted(dying, "began", times=3)
        await noted(steady, "began")
    assert steady.read_text().split() == ["began", "term"]


async def test_a_signal_to_end_reaches_all_and_ends_the_group(tmp_path: Path) -> None:
    journals = [tmp_path / str(number) for number in range(3)]
    async with running([a_child(journal) for journal in journals]) as run:
        for journal in journals:
            await noted(journal, "began")
        send(signal.SIGTERM)
        await run
    assert [journal.read_text().split() for journal in journals] == [["began", "term"]] * 3


async def test_a_process_that_does_not_end_when_told_is_killed_after_its_time(tmp_path: Path) -> None:
    journal, script = tmp_path / "journal", CHILD.replace("sys.exit(0)", "pass")
    stubborn = [sys.executable, "-c", script, str(journal), "0"]
    run = asyncio.create_task(a_group([stubborn], SystemClock(), end_within=timedelta(seconds=1)).run())
    await noted(journal, "began")
    send(signal.SIGTERM)
    async with asyncio.timeout(20):
        await run
    assert journal.read_text().split() == ["began", "term"]


async def test_a_signal_to_reload_is_passed_on_and_ends_nobody(tmp_path: Path) -> None:
    journals = [tmp_path / str(number) for number in range(2)]
    async with running([a_child(journal) for journal in journals]) as run:
        for journal in journals:
            await noted(journal, "began")
        send(signal.SIGHUP)
        for journal in journals:
            await noted(journal, "hup")
        assert not run.done()


async def test_the_pauses_grow_while_a_process_keeps_dying_and_start_anew_after_a_good_run() -> None:
    def stop_in_the_end() -> None:
        if len(clock.pauses) == 9:
            send(signal.SIGTERM)

    clock = HurriedClock(0, 0, 0, 0, 0, 0, 0, GOOD_RUN_S + 1, 0, on_sleep=stop_in_the_end)
    await a_group([["false"]], clock).run()
    seconds = [pause.total_seconds() for pause in clock.pauses[:9]]
    assert seconds == [1, 2, 4, 8, 16, 30, 30, 1, 2]


async def test_told_to_end_during_a_pause_nothing_is_started_any_more(tmp_path: Path) -> None:
    class Patient(HurriedClock):
        async def sleep(self, duration: timedelta) -> None:
            send(signal.SIGTERM)
            await asyncio.Event().wait()

    journal = tmp_path / "journal"
    await a_group([a_child(journal, deaths=10)], Patient()).run()
    assert journal.read_text().split() == ["began"]


async def test_a_process_that_was_being_started_when_all_were_told_to_end_is_told_too() -> None:
    class Sudden(HurriedClock):
        def monotonic(self) -> float:
            # The loop calls the handler of a signal between two steps: here, while the process is being started.
            asyncio.get_running_loop().call_soon(group._stop, signal.SIGTERM)
            return 0.0

    group = a_group([[sys.executable, "-c", "import signal; signal.pause()"]], Sudden())
    async with asyncio.timeout(20):
        await group.run()


async def test_a_process_that_cannot_be_started_does_not_end_the_others(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    clock = HurriedClock()
    run = asyncio.create_task(a_group([[str(tmp_path / "absent")], a_child(journal)], clock).run())
    await noted(journal, "began")
    assert clock.pauses, "it is tried again"
    assert not run.done()
    send(signal.SIGTERM)
    await run
    assert journal.read_text().split() == ["began", "term"]


async def test_a_signal_for_one_that_has_just_ended_still_reaches_the_others(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    group = a_group([a_child(journal)], SystemClock())
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    group._children[-1] = ended  # as it is for a moment, until its task has noticed
    run = asyncio.create_task(group.run())
    await noted(journal, "began")
    send(signal.SIGTERM)
    async with asyncio.timeout(20):
        await run


@pytest.mark.skipif(sys.platform != "linux", reason="no other kernel tells a process that its parent has died")
async def test_when_the_group_itself_is_killed_its_processes_are_told_to_end(tmp_path: Path) -> None:
    journals = [tmp_path / str(number) for number in range(2)]
    commands = [a_child(journal) for journal in journals]
    group = await asyncio.create_subprocess_exec(sys.executable, "-c", GROUP.format(commands=commands))
    for journal in journals:
        await noted(journal, "began")

    group.kill()
    await group.wait()

    for journal in journals:
        await noted(journal, "term")


async def test_processes_that_cannot_be_used_are_not_started_for_ever(tmp_path: Path) -> None:
    steady = tmp_path / "steady"
    unusable = [sys.executable, "-c", "import sys; sys.exit(2)"]
    with pytest.raises(ConfigError, match="could not start"):
        await a_group([unusable, a_child(steady)], HurriedClock()).run()
    assert not steady.exists() or "term" in steady.read_text().split()
