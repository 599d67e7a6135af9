"""A shell command as a task: what `rota import crontab` and `rota import systemd` need to run what they find.

`rota worker --app run_command.py`, and `--function run_command:run_command` for the import.
"""

import os
import signal
import subprocess
import tempfile
from contextlib import suppress

import rota

END_WITHIN_S = 1.0  # of SIGTERM, before SIGKILL: less than worker.stop_grace, after which nobody cleans up


@rota.task("run_command", retries=0)
def run_command(ctx: rota.Context, command: str, *, env: dict[str, str] | None = None, stdin: str = "") -> int:
    """Each line that it prints is a line of the task's log. Any exit code but 0 fails the attempt."""
    with tempfile.TemporaryFile() as given:  # not a pipe: the command may print before it has read all
        given.write(stdin.encode())
        given.seek(0)
        process = subprocess.Popen(  # noqa: S602 that is what it is for: who may define types says what runs
            command,
            shell=True,
            executable=(env or {}).get("SHELL"),  # as cron does; /bin/sh if nothing says otherwise
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # a process group of its own, with all that it starts
        )
    try:
        for line in process.stdout or ():
            ctx.log.info(line.decode(errors="replace").rstrip("\n"))
        code = process.wait()
    except BaseException:  # a timeout, a cancel, or a worker that stops
        end_group(process)
        raise
    if code:
        raise RuntimeError(f"exit code {code}" if code > 0 else f"ended by signal {-code}")
    return code


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """The command and whatever it started: in good order if it is quick, else at once."""
    with suppress(ProcessLookupError):
        try:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_WITHIN_S)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # what is left of it
    process.wait()
