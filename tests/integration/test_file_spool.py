"""The spool on a real disk."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.application.work.spool import Result
from rota.domain.attempt import Failed, TaskError, TaskResult
from rota.domain.conclusion import conclude
from rota.domain.errors import UnavailableError
from rota.domain.retry import STANDARD_RETRY
from rota.infrastructure.spool import FileSpool, open_spool
from rota.testing.values import replace
from tests.support.builders import EMAIL, NOW, a_running_state, an_attempt


def a_result(task_id: int) -> Result:
    state = a_running_state(task_id, worker_id=2**62 + task_id)
    error = Failed(TaskError("smtp", "no “answer”\nat all", detail="Traceback"))
    step = conclude(state, error, policy=STANDARD_RETRY, at=NOW, chance=0.5)
    return Result(an_attempt(state), EMAIL, step)


async def test_what_is_kept_is_read_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "made" / "spool.jsonl"
    state = a_running_state(3)
    success = Result(an_attempt(state), EMAIL, state.succeeded(TaskResult(data='{"n":1}'), at=NOW))
    await FileSpool(path).append([a_result(1), a_result(2)])
    await FileSpool(path).append([success])
    assert await FileSpool(path).read() == [a_result(1), a_result(2), success]


async def test_a_cleared_spool_is_empty(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path / "spool.jsonl")
    await spool.append([a_result(1)])
    await spool.clear()
    await spool.clear()
    assert await spool.read() == []


async def test_a_torn_last_line_is_left_out_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    await FileSpool(path).append([a_result(1), a_result(2)])
    path.write_bytes(path.read_bytes()[:-40])
    assert await FileSpool(path).read() == [a_result(1)]
    await FileSpool(path).append([a_result(3)])
    assert await FileSpool(path).read() == [a_result(1), a_result(3)]


async def test_a_line_of_a_stranger_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(b'{"from":"the future"}\n\xff\xfe\n')
    await FileSpool(path).append([a_result(1)])
    assert await FileSpool(path).read() == [a_result(1)]


async def test_a_spool_that_has_grown_to_its_bound_has_no_room(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    spool = FileSpool(path, most_bytes=1000)
    assert spool.has_room
    await spool.append([a_result(1), a_result(2)])
    assert not spool.has_room
    after = FileSpool(path, most_bytes=1000)
    await after.read()
    assert not after.has_room
    await after.clear()
    assert after.has_room


async def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    await FileSpool(path).append([replace(a_result(1))])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_disk_that_fails_is_said_to_be_unavailable(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path)  # a folder
    with pytest.raises(UnavailableError):
        await spool.append([a_result(1)])
    with pytest.raises(UnavailableError):
        await spool.read()


TAKE_SLOT = """
import asyncio, sys
from pathlib import Path
from rota.infrastructure.spool import open_spool
spool = open_spool(Path(sys.argv[1]), "worker")
print(spool._path.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def a_process(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Another process of the same name, with the file that it has taken; killed at the end."""
    command = [sys.executable, "-c", TAKE_SLOT, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 ours
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_two_processes_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    with a_process(tmp_path) as (first, _), a_process(tmp_path) as (second, _):
        assert (first, second) == ("worker.1.spool", "worker.2.spool")


async def test_what_a_killed_process_left_is_taken_over_by_the_next(tmp_path: Path) -> None:
    with a_process(tmp_path) as (left, first), a_process(tmp_path) as (held, _):
        for name, task_id in ((left, 1), (held, 2)):
            await FileSpool(tmp_path / name).append([a_result(task_id)])
        first.kill()
        first.wait()
        with a_process(tmp_path) as (taken, _):
            assert taken == left
            assert await FileSpool(tmp_path / taken).read() == [a_result(1)]


async def test_a_name_has_files_apart_from_those_of_other_names(tmp_path: Path) -> None:
    mine, theirs = open_spool(tmp_path / "made", "mine"), open_spool(tmp_path / "made", "theirs")
    await mine.append([a_result(1)])
    assert await theirs.read() == []
