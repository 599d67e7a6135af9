"""How many Python functions a task calls on its whole way, on virtual time and the in-process adapters: always as many.

A function call is what pure Python pays with. Who adds some for every task sees it here, before any benchmark."""

import pytest

import rota
from rota.sdk import samples
from rota.testing import run
from tests.support.counters import LEAST_OF_BUDGET, counting_calls

PAYLOAD = {"filler": "about a hundred bytes, as an ordinary task has them, so that it looks like some real work"}
MOST_CALLS = {1: 866, 100: 225, 500: 221}  # for a task, by how many are submitted at once: what it was, and 5 %


@pytest.mark.parametrize("tasks", MOST_CALLS)
def test_a_task_calls_as_many_functions_as_it_may(tasks: int) -> None:
    async def scenario(app: rota.Rota) -> float:
        for handle in await app.submit_many("sample_noop", [PAYLOAD] * 10):  # imports, and what is done once
            await handle.wait()
        with counting_calls() as calls:
            *_, last = await app.submit_many("sample_noop", [PAYLOAD] * tasks)
            await last.wait()
        return calls.number / tasks

    spent = run(scenario, (samples.noop,), settings={"worker": {"capacity": 500}})
    assert LEAST_OF_BUDGET * MOST_CALLS[tasks] <= spent <= MOST_CALLS[tasks]


def test_our_code_counts_wherever_it_was_cloned_to() -> None:
    ours = compile("def one(): pass\none()", "/home/ada/tests/bench/rota/src/rota/one.py", "exec")
    with counting_calls() as calls:
        exec(ours, {})  # noqa: S102 our own two lines
    assert calls.number >= 2, "the module and its function"
