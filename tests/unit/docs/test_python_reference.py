"""The code of `docs/reference/python.md` that needs no server."""

import asyncio

import rota
from rota.testing import advance, run


@rota.task("docs.send_email", timeout="1m", retries=3, priority="high")
async def send_email(ctx: rota.Context, to: str, *, subject: str = "hi") -> dict[str, str]:
    ctx.log.info("sending", to=to)
    await ctx.progress(0.5, "half way")
    if not to:
        raise rota.Fail("nobody to send it to")
    if to == "busy@example.com" and ctx.attempt == 1:
        raise rota.Retry("the server is busy", after="30s")
    if to == "night@example.com" and ctx.attempt == 1:
        raise rota.Snooze("20m")
    return {"to": to, "subject": subject}


async def embed() -> rota.TaskView:
    settings = {"store": {"url": "memory://"}, "metrics": {"collector": "none"}}
    async with rota.Rota(settings) as app:  # a scheduler and a worker, here
        handle = await app.submit("docs.send_email", {"to": "ada@example.com"}, delay="10ms")
        task = await handle.wait("30s")
        assert await app.count() == {"SUCCESS": 1}
        return task


def test_a_busy_server_is_asked_again() -> None:
    async def scenario(app: rota.Rota) -> None:
        handle = await app.submit("docs.send_email", {"to": "busy@example.com"})
        await advance("29s")
        assert (await handle.get()).status == "RETRYING"
        task = await handle.wait("1m")
        assert (task.status, task.attempt, task.retry_count) == ("SUCCESS", 2, 1)

    run(scenario, [send_email])


def test_the_other_ways_to_end() -> None:
    async def scenario(app: rota.Rota) -> list[tuple[str, int, int]]:
        payloads = [{"to": ""}, {"to": "night@example.com"}]
        tasks = [await handle.wait("1d") for handle in await app.submit_many("docs.send_email", payloads)]
        return [(task.status, task.attempt, task.retry_count) for task in tasks]

    assert run(scenario, [send_email]) == [("FAILED", 1, 0), ("SUCCESS", 2, 0)]


def test_embedded_in_a_program() -> None:
    task = asyncio.run(embed())
    assert task.result is not None
    assert task.result.data == {"to": "ada@example.com", "subject": "hi"}
