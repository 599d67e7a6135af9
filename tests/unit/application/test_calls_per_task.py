"""How many Python functions a task calls on its whole way, on virtual time and the in-process adapters: always as many.

A function call is what pure Python pays with. Who adds some for every task sees it here, before any benchmark."""

import pytest

import rota
from rota.sdk import samples
from rota.testing import run
from tests.support.counters import Cost, beyond, counting_calls, remedy

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
    missed = beyond(spent, MOST_CALLS[tasks])
    assert not missed, f"calls: {missed}\n{remedy('MOST_CALLS of test_calls_per_task.py')}"


def test_a_count_that_leaves_its_budget_is_told_with_the_side_on_which_it_does() -> None:
    budget = Cost(4, 300, 1, 27_000, trips=2, commands=8, redis_bytes=22_000, calls=3_150)
    assert budget.beyond(budget) == []
    assert budget._replace(calls=3_200).beyond(budget) == ["calls: 3,200 is above the 3,150 that are allowed"]
    (told,) = budget._replace(rows=200).beyond(budget)
    assert told.startswith("rows: 200 is below 255, 85% of its budget")
    assert budget._replace(rows=200).beyond(budget, least=0.5, most=2.5) == []


def test_our_code_counts_wherever_it_was_cloned_to() -> None:
    ours = compile("def one(): pass\none()", "/home/ada/tests/bench/rota/src/rota/one.py", "exec")
    with counting_calls() as calls:
        exec(ours, {})  # noqa: S102 our own two lines
    assert calls.number >= 2, "the module and its function"
