import pytest

from rota.domain.callback import AttemptKey, spell_link, verify_link
from rota.domain.ids import MAX_ID, TaskId, TenantId

KEY = b"a key of the cluster"
ATTEMPT = AttemptKey(TenantId("acme.eu-1"), TaskId(17), 2)


def parts(link: str) -> tuple[str, str]:
    nothing, tasks, task_id, attempts, attempt = link.split("/")
    assert (nothing, tasks, attempts) == ("", "tasks", "attempts")
    return task_id, attempt


def test_a_link_is_good_for_its_attempt() -> None:
    task_id, attempt = parts(spell_link(KEY, ATTEMPT))

    assert verify_link(KEY, task_id, attempt=attempt) == ATTEMPT
    assert attempt.startswith("2.acme.eu-1.")


@pytest.mark.parametrize(
    "other",
    [
        AttemptKey(TenantId("acme.eu-1"), TaskId(17), 3),
        AttemptKey(TenantId("acme.eu-1"), TaskId(18), 2),
        AttemptKey(TenantId("acme"), TaskId(17), 2),
    ],
)
def test_the_proof_of_another_attempt_proves_nothing(other: AttemptKey) -> None:
    _, attempt = parts(spell_link(KEY, ATTEMPT))
    proof = attempt.rpartition(".")[2]

    assert verify_link(KEY, str(other.task_id), attempt=f"{other.number}.{other.tenant_id}.{proof}") is None


def test_another_clusters_key_proves_nothing() -> None:
    task_id, attempt = parts(spell_link(b"another key", ATTEMPT))

    assert verify_link(KEY, task_id, attempt=attempt) is None


@pytest.mark.parametrize(
    ("task_id", "attempt"),
    [
        ("17", "2"),
        ("17", "2.acme"),
        ("17", "2.acme." + "x" * 42),
        ("17", "0.acme." + "x" * 43),
        ("17", "2..acme." + "x" * 43),
        ("x", "2.acme." + "x" * 43),
        ("\u0661", "2.acme." + "x" * 43),
        (str(MAX_ID + 1), "2.acme." + "x" * 43),
    ],
)
def test_what_is_no_link_proves_nothing(task_id: str, attempt: str) -> None:
    assert verify_link(KEY, task_id, attempt=attempt) is None
