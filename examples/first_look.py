"""A first look at Rota: the scheduler, a worker and SQLite inside this one program, and four tasks.

    make dev

The tasks are in `tasks.py`. Everything else is what a cluster does too, only on one machine and in one process.
"""

import asyncio
import logging
import os
from pathlib import Path

import structlog

import rota

FILE = Path(".rota/first_look.db")
TASKS = Path(__file__).with_name("tasks.py")


async def main() -> None:
    # Rota logs through structlog, which prints everything unless told otherwise. Here only errors matter.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings = {"store": {"url": f"sqlite:///{FILE}"}}
    print(f"Rota {rota.__version__}: a scheduler, a worker and the store {FILE} in one program (process {os.getpid()})")
    async with rota.Rota(settings, app=str(TASKS)) as app:
        await show_a_coroutine(app)
        await show_a_function(app)
        await show_retries(app)
        await show_a_cancel(app)
    print(f"\nThe tasks are in {TASKS.name}; the end of each is kept in {FILE}. Run this again, it goes on from there.")


async def show_a_coroutine(app: rota.Rota) -> None:
    begin("An async function runs on an event loop of its own")
    handle = await app.submit("greet", {"name": "Ada"})
    say("submitted", f"greet, as task {handle.id}: it is in the store and will run, whatever dies now")
    say_end(await handle.wait("10s"))


async def show_a_function(app: rota.Rota) -> None:
    begin("A plain function runs in a child process, so it may use a core, crash or be killed")
    handle = await app.submit("count_primes", {"below": 50_000}, priority="high")
    say("submitted", "count_primes, with priority high")
    say_end(await handle.wait("20s"))


async def show_retries(app: rota.Rota) -> None:
    begin("A task that fails is tried again, with growing pauses")
    handle = await app.submit("call_shop", {"order": 7})
    say("submitted", "call_shop, which fails twice")
    seen = 0
    while not (task := await handle.get()).status.is_final:
        if task.error is not None and task.attempt > seen and task.status == "RETRYING":
            seen = task.attempt
            say("failed", f"attempt {seen}: {task.error.code}: {task.error.message}")
        await asyncio.sleep(0.02)
    say_end(task)


async def show_a_cancel(app: rota.Rota) -> None:
    begin("A running task can be cancelled")
    handle = await app.submit("long_nap", {"seconds": 60})
    for _ in range(100):
        if (await handle.get()).status == "PROCESSING":
            break
        await asyncio.sleep(0.02)
    say("running", (await app.explain(handle.id)).sentence)
    say_end(await handle.cancel("we have seen enough"))


def begin(title: str) -> None:
    print(f"\n{title}")


def say(what: str, text: str) -> None:
    print(f"  {what:<10} {text}")


def say_end(task: rota.TaskView) -> None:
    took = "" if task.completed_at is None else f"after {(task.completed_at - task.created_at).total_seconds():.2f} s"
    why = task.error.message if task.error is not None else ""
    say(task.status, f"{took}  {task.result.data if task.result is not None else why}")


if __name__ == "__main__":
    asyncio.run(main())
