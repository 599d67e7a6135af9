from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.balancing import (
    BALANCERS,
    Draw,
    LoadBalancer,
    Need,
    consistent_hash,
    draws_from,
    least_task,
    random_choice,
    round_robin,
    spread,
    type_affinity,
    weighted,
)
from rota.domain.ids import TaskId, WorkerId
from rota.domain.worker import Worker
from tests.support.builders import EMAIL, a_worker
from tests.support.properties import PROPERTY

KEYS = 20_000
TYPES = ["email", "report", "video"]
balancers = st.sampled_from(sorted(BALANCERS)).map(BALANCERS.__getitem__)


def needs(*types: str) -> list[Need]:
    return [Need(TaskId(task_id), task_type) for task_id, task_type in enumerate(types, 1)]


def workers_of(number: int, *, capacity: int = 1000) -> list[Worker]:
    return [a_worker(worker_id, capacity=capacity) for worker_id in range(1, number + 1)]


def evenly(number: int) -> Callable[[], float]:
    """Chances evenly spaced over [0, 1)."""
    step = count()
    return lambda: (next(step) % number) / number


@st.composite
def clusters(draw: st.DrawFn) -> list[Worker]:
    return [
        a_worker(
            worker_id,
            name=f"worker-{draw(st.integers(1, 4))}",  # an old and a new incarnation may both be there
            capacity=draw(st.integers(1, 5)),
            load=draw(st.integers(0, 5)),
            weight=draw(st.integers(1, 10)),
            types=draw(st.frozensets(st.sampled_from([*TYPES, "*"]), min_size=1)),
            is_draining=draw(st.booleans()),
        )
        for worker_id in draw(st.lists(st.integers(1, 100), unique=True, max_size=8))
    ]


@PROPERTY
@given(balancers, clusters(), st.lists(st.sampled_from(TYPES), max_size=30), st.floats(0, 1, exclude_max=True))
def test_no_balancer_overfills_a_worker_or_gives_it_what_it_cannot_do_or_leaves_out_what_someone_could_take(
    balancer: LoadBalancer, workers: list[Worker], types: list[str], chance: float
) -> None:
    chosen = spread(needs(*types), workers, balancer=balancer, draws=draws_from(0, lambda: chance))

    by_id = {worker.id: worker for worker in workers}
    given_to = Counter(chosen.values())
    left = [worker for worker in workers if worker.room > given_to[worker.id]]
    assert all(given_to[worker.id] <= worker.room for worker in workers)
    for need in needs(*types):
        if need.task_id in chosen:
            assert by_id[chosen[need.task_id]].supports(need.type)
        else:
            assert not any(worker.supports(need.type) for worker in left)


@PROPERTY
@given(balancers, clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_workers_are_listed_does_not_matter(
    balancer: LoadBalancer, workers: list[Worker], chance: Random
) -> None:
    shuffled = chance.sample(workers, len(workers))
    batch = needs(*TYPES * 3)

    def run(listed: Sequence[Worker]) -> dict[TaskId, WorkerId]:
        return spread(batch, listed, balancer=balancer, draws=draws_from(3, lambda: 0.3))

    assert run(workers) == run(shuffled)


def test_without_any_worker_everything_stays_where_it_is() -> None:
    assert spread(needs(EMAIL), [], balancer=least_task, draws=draws_from(0, lambda: 0.0)) == {}


@pytest.mark.parametrize("balancer", BALANCERS.values(), ids=BALANCERS)
@pytest.mark.parametrize("named", ["@local", "@local.shop", "@local.shop.jobs"])
def test_a_function_of_a_module_goes_to_who_names_a_package_around_it(balancer: LoadBalancer, named: str) -> None:
    workers = [a_worker(1, types=frozenset({"other"})), a_worker(2, types=frozenset({named}))]
    wanted = [Need(TaskId(1), "nightly", "local.shop.jobs")]
    assert spread(wanted, workers, balancer=balancer, draws=draws_from(0, evenly(1))) == {1: 2}


def test_a_task_that_nobody_can_take_uses_up_no_turn() -> None:
    workers = [a_worker(1, types=frozenset({EMAIL})), a_worker(2, types=frozenset({EMAIL}))]

    chosen = spread(needs(EMAIL, "video", EMAIL), workers, balancer=round_robin, draws=draws_from(0, lambda: 0.0))

    assert chosen == {1: 1, 3: 2}


def test_a_balancer_of_ones_own_sees_the_load_of_the_tasks_given_before() -> None:
    seen: list[list[int]] = []

    def first(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
        seen.append([worker.load for worker in workers])
        return workers[0]

    spread(needs(EMAIL, EMAIL, EMAIL), workers_of(2, capacity=2), balancer=first, draws=draws_from(0, lambda: 0.0))

    assert seen == [[0, 0], [1, 0], [0]]


def test_a_balancer_that_makes_up_a_worker_fails_at_once() -> None:
    def stranger(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
        return a_worker(99)

    with pytest.raises(KeyError):
        spread(needs(EMAIL), workers_of(2), balancer=stranger, draws=draws_from(0, lambda: 0.0))


def test_draws_count_the_turns_from_where_the_last_batch_ended() -> None:
    draws = draws_from(41, evenly(4))

    assert [next(draws) for _ in range(3)] == [Draw(41, 0.0), Draw(42, 0.25), Draw(43, 0.5)]


@PROPERTY
@given(st.integers(1, 10), st.integers(0, 100), st.integers(0, 1_000))
def test_least_task_keeps_equal_workers_within_one_task_of_each_other(workers: int, tasks: int, turn: int) -> None:
    cluster = workers_of(workers)

    chosen = spread(needs(*[EMAIL] * tasks), cluster, balancer=least_task, draws=draws_from(turn, lambda: 0.0))

    loads = [Counter(chosen.values())[worker.id] for worker in cluster]
    assert max(loads) - min(loads) <= 1


@PROPERTY
@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 60))
def test_least_task_loads_unequal_workers_in_proportion_to_their_capacity(capacities: list[int], tasks: int) -> None:
    cluster = [a_worker(worker_id, capacity=capacity) for worker_id, capacity in enumerate(capacities, 1)]

    chosen = spread(needs(*[EMAIL] * tasks), cluster, balancer=least_task, draws=draws_from(0, lambda: 0.0))

    loads = Counter(chosen.values())
    least_share = min(loads[worker.id] / worker.capacity for worker in cluster)
    assert all((loads[worker.id] - 1) / worker.capacity <= least_share for worker in cluster)


def test_least_task_takes_idle_workers_in_turn() -> None:
    picked = [least_task(Need(TaskId(1), EMAIL), workers_of(3), draw=Draw(turn, 0.0)).id for turn in range(4)]

    assert picked == [1, 2, 3, 1]


@PROPERTY
@given(st.integers(1, 10), st.integers(1, 20), st.integers(0, 1_000))
def test_round_robin_is_even(workers: int, rounds: int, turn: int) -> None:
    batch = needs(*[EMAIL] * (workers * rounds))

    chosen = spread(batch, workers_of(workers), balancer=round_robin, draws=draws_from(turn, lambda: 0.0))

    assert set(Counter(chosen.values()).values()) == {rounds}


@PROPERTY
@given(st.integers(1, 10), st.integers(1, 20))
def test_random_is_even_when_chance_is(workers: int, rounds: int) -> None:
    tasks = workers * rounds

    draws = draws_from(0, evenly(tasks))
    chosen = spread(needs(*[EMAIL] * tasks), workers_of(workers), balancer=random_choice, draws=draws)

    assert max(Counter(chosen.values()).values()) <= rounds + 1


@PROPERTY
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
def test_weighted_gives_each_worker_its_share(weights: list[int]) -> None:
    cluster = [a_worker(worker_id, weight=weight) for worker_id, weight in enumerate(weights, 1)]
    draws = draws_from(0, evenly(200))

    given_to = Counter(weighted(Need(TaskId(1), EMAIL), cluster, draw=next(draws)).id for _ in range(200))

    assert all(abs(given_to[worker.id] - 200 * worker.weight / sum(weights)) <= 1 for worker in cluster)


@pytest.mark.parametrize("balancer", [random_choice, weighted])
@pytest.mark.parametrize("workers", [1, 3, 7, 200])
def test_the_highest_chance_is_still_somebodys(balancer: LoadBalancer, workers: int) -> None:
    cluster = workers_of(workers)

    assert balancer(Need(TaskId(1), EMAIL), cluster, draw=Draw(0, 1.0 - 2**-53)) is cluster[-1]


def homes(workers: Sequence[Worker], *, keys: int = KEYS) -> list[Worker]:
    """Where consistent hashing puts this many tasks."""
    return [consistent_hash(Need(TaskId(key), EMAIL), workers, draw=Draw(0, 0.0)) for key in range(keys)]


@pytest.mark.parametrize("number", [3, 12])
def test_a_worker_that_joins_or_leaves_moves_only_its_own_share_of_the_tasks(number: int) -> None:
    cluster = workers_of(number)
    newcomer = cluster[number // 2]

    without, with_it = homes([worker for worker in cluster if worker is not newcomer]), homes(cluster)

    moved = [after for before, after in zip(without, with_it, strict=True) if before is not after]
    assert all(home is newcomer for home in moved)
    assert len(moved) <= 1.2 / number * KEYS


def test_consistent_hash_spreads_tasks_evenly() -> None:
    shares = Counter(home.id for home in homes(workers_of(10))).values()

    assert KEYS / 10 * 0.9 <= min(shares) <= max(shares) <= KEYS / 10 * 1.1


def test_a_restarted_worker_gets_the_tasks_that_its_name_had() -> None:
    before = [a_worker(1, name="blue"), a_worker(2, name="green")]
    after = [a_worker(2, name="green"), a_worker(3, name="blue")]

    names = [[home.name for home in homes(cluster, keys=100)] for cluster in (before, after)]
    assert names[0] == names[1]
    assert set(names[0]) == {"blue", "green"}


def test_of_two_incarnations_with_one_name_the_newer_gets_the_tasks() -> None:
    crashed, restarted = a_worker(1, name="blue"), a_worker(3, name="blue")

    assert crashed not in homes([crashed, a_worker(2, name="green"), restarted], keys=100)


def test_type_affinity_sticks_to_one_worker_until_it_is_full() -> None:
    cluster = workers_of(5, capacity=3)

    batch = needs(*[EMAIL] * 7)
    chosen = list(spread(batch, cluster, balancer=type_affinity, draws=draws_from(0, lambda: 0.0)).values())

    assert [len(set(chosen[begin:end])) for begin, end in ((0, 3), (3, 6), (6, 7))] == [1, 1, 1]
    assert len(set(chosen)) == 3


def test_type_affinity_gives_different_types_different_homes() -> None:
    cluster = workers_of(10)

    homes_of_types = Counter(
        type_affinity(Need(TaskId(1), f"type-{number}"), cluster, draw=Draw(0, 0.0)).id for number in range(1_000)
    )

    assert set(homes_of_types) == {worker.id for worker in cluster}
