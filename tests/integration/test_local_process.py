"""One child process, seen by its worker."""

import os
import signal
import sys

import pytest

from rota.infrastructure.executors.local.facts import facts_of
from rota.infrastructure.executors.local.frames import Hello, Run
from rota.infrastructure.executors.local.process import ChildDiedError, ChildProcess
from tests.support.local_jobs import LONG, Recorder, a_job


async def test_a_process_that_died_before_its_first_job_is_told_as_one_that_died() -> None:
    hello = Hello(path=sys.path, app=None, memory_limit=None, parent=os.getpid())
    child = await ChildProcess.start(hello, within=LONG, on_death=lambda _: None)
    child.signal_group(signal.SIGKILL)
    await child.died

    job = Run(function="operator:neg", payload="{}", facts=facts_of(a_job("local.add")))
    with pytest.raises(ChildDiedError, match="signal 9") as died:
        await child.run(job, Recorder())

    assert died.value.error.code == "worker_process_died"
