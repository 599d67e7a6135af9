"""The example that runs shell commands, as imported crontabs and timers need it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.support.cluster import wait_until

APP = Path(__file__).resolve().parents[2] / "examples" / "run_command.py"


@pytest.fixture
async def app() -> AsyncIterator[rota.Rota]:
    settings = {"store": {"url": "memory://"}, "worker": {"capacity": 2}}
    async with rota.Rota(settings, app=str(APP)) as made:
        yield made


async def run(app: rota.Rota, command: str, **payload: Any) -> rota.TaskView:
    return await (await app.submit("run_command", {"command": command, **payload})).wait("25s")


async def lines_of(app: rota.Rota, task: rota.TaskView) -> list[str]:
    return [line.message for line in await app.logs(task.id)]


async def test_a_command_has_its_variables_and_its_input_and_what_it_prints_is_logged(app: rota.Rota) -> None:
    task = await run(app, 'cat; echo "$GREETING" >&2', env={"GREETING": "hello"}, stdin="first\nsecond")
    assert (task.status, task.result and task.result.data) == ("SUCCESS", 0)
    assert [line for line in await lines_of(app, task) if "hello" in line or line == "first"] == [
        "first",
        "secondhello",
    ]


async def test_a_command_is_run_by_the_shell_that_its_crontab_names(app: rota.Rota) -> None:
    command = "words=(one two); echo ${words[1]}"  # which the sh of Debian does not know
    task = await run(app, command, env={"SHELL": "/bin/bash"})
    assert (task.status, "two" in await lines_of(app, task)) == ("SUCCESS", True)


async def test_an_exit_code_or_a_signal_fails_it(app: rota.Rota) -> None:
    for command, told in (("exit 3", "exit code 3"), ("kill -9 $$", "ended by signal 9")):
        task = await run(app, command)
        assert task.error is not None
        assert (task.status, told in task.error.message) == ("FAILED", True)


@pytest.mark.parametrize(("limit", "status"), [("2s", "TIMEOUT"), ("1h", "CANCELLED")])
async def test_at_its_timeout_or_a_cancel_all_that_it_started_ends(
    app: rota.Rota, tmp_path: Path, *, limit: str, status: str
) -> None:
    pids = tmp_path / "pids"
    command = f'trap "" TERM; sleep 600 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait'
    handle = await app.submit("run_command", {"command": command}, timeout=limit)
    await asyncio.to_thread(wait_until, pids.exists, "the command to begin")
    if status == "CANCELLED":
        await handle.cancel()
    assert (await handle.wait("25s")).status == status
    started = [int(pid) for pid in pids.read_text().split()]
    await asyncio.to_thread(wait_until, lambda: not any(is_alive(pid) for pid in started), "all of it to end")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before its file was opened, or before it was read
        return False
    return state != "Z"
