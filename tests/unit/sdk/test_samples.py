"""The sample tasks do what they say."""

import pytest

import rota
from rota.domain.task import CANCELLED, SUCCESS
from rota.sdk import samples
from rota.sdk.views import TaskView
from rota.testing import advance, run

SAMPLES = (samples.hello, samples.flaky, samples.noop, samples.slow, samples.primes)


async def end_of(app: rota.Rota, task_type: str, **payload: object) -> TaskView:
    return await (await app.submit(task_type, payload)).wait("5m")


def test_hello_greets() -> None:
    task = run(lambda app: end_of(app, "sample_hello", name="Ada"), SAMPLES)
    assert (task.status, task.result and task.result.data) == (SUCCESS, "Hello, Ada!")


def test_noop_does_nothing() -> None:
    task = run(lambda app: end_of(app, "sample_noop", filler="x"), SAMPLES)
    assert (task.status, task.result and task.result.data) == (SUCCESS, None)


def test_flaky_succeeds_after_two_failures() -> None:
    task = run(lambda app: end_of(app, "sample_flaky"), SAMPLES)
    assert (task.status, task.attempt, task.retry_count) == (SUCCESS, 3, 2)


def test_slow_can_be_cancelled_half_way() -> None:
    async def scenario(app: rota.Rota) -> TaskView:
        handle = await app.submit("sample_slow")
        await advance("5s")
        await handle.cancel()
        return await handle.wait()

    assert run(scenario, SAMPLES).status is CANCELLED


def test_slow_gets_to_its_end() -> None:
    task = run(lambda app: end_of(app, "sample_slow", steps=3), SAMPLES)
    assert (task.status, task.result and task.result.data) == (SUCCESS, "3 steps")


@pytest.mark.parametrize(("below", "number"), [(0, 0), (1, 0), (2, 0), (3, 1), (100, 25), (10_000, 1229)])
def test_primes_are_counted(below: int, number: int) -> None:
    task = run(lambda app: end_of(app, "sample_primes", below=below), SAMPLES)
    assert task.result is not None
    assert task.result.data["primes"] == number
