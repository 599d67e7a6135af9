"""How users test their own tasks; `docs/guides/testing-your-tasks.md` shows this file."""

import asyncio

import rota
from rota.testing import advance, run


@rota.task("docs.place_order", retries=3, retry_delay="10m")
async def place_order(ctx: rota.Context, number: int) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("the shop does not answer")
    return f"order {number}"


@rota.task("docs.remind")
async def remind(who: str) -> str:
    return f"wake up, {who}"


@rota.task("docs.import_file", timeout="1h")
async def import_file(path: str) -> None:
    await asyncio.sleep(30 * 60)


def test_an_order_is_retried_until_the_shop_answers() -> None:
    async def scenario(app: rota.Rota) -> None:
        handle = await app.submit("docs.place_order", {"number": 7})
        task = await handle.wait("1h")  # half an hour of pauses, over at once
        assert (task.status, task.attempt, task.retry_count) == ("SUCCESS", 3, 2)
        assert task.result is not None
        assert task.result.data == "order 7"

    run(scenario, [place_order])


def test_a_reminder_waits_for_its_time() -> None:
    async def scenario(app: rota.Rota) -> None:
        handle = await app.submit("docs.remind", {"who": "Ada"}, delay="10m")
        await advance("9m")
        assert (await handle.get()).status == "PENDING"
        await advance("2m")
        assert (await handle.get()).status == "SUCCESS"

    run(scenario, [remind])


def test_a_payload_that_does_not_fit_is_no_reason_to_try_again() -> None:
    async def scenario(app: rota.Rota) -> None:
        task = await (await app.submit("docs.place_order", {"number": "seven"})).wait("1m")
        assert task.status == "FAILED"
        assert task.error is not None
        assert (task.error.code, task.attempt) == ("bad_payload", 1)

    run(scenario, [place_order])


def test_an_import_that_is_cancelled_stops() -> None:
    async def scenario(app: rota.Rota) -> None:
        handle = await app.submit("docs.import_file", {"path": "orders.csv"})
        await advance("1m")
        task = await handle.cancel("wrong file")
        assert (task.status, task.attempt) == ("CANCELLED", 1)

    run(scenario, [import_file])
