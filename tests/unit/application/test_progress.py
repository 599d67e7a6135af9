"""How far a running attempt got."""

from rota.application.progress import find_progress
from rota.domain.log import LogEntry, Progress, place, progress_detail
from rota.domain.task import LogKind
from rota.infrastructure.store.memory.store import memory_store
from tests.support.builders import NOW, a_running_state, a_state, a_task
from tests.support.clock import FakeClock


async def test_the_progress_of_a_running_attempt_is_found_and_that_of_a_waiting_task_is_not() -> None:
    logs, running = memory_store(FakeClock()).logs, a_task(state=a_running_state())
    assert await find_progress(logs, running) is None, "it has said nothing"
    entry = LogEntry(
        task_id=running.id,
        seq=place(running.state.version, 1),
        kind=LogKind.INFO,
        attempt=running.state.attempt,
        at=NOW,
        message="half way",
        detail=progress_detail(0.5),
    )
    await logs.append([entry])
    assert await find_progress(logs, running) == Progress(0.5, "half way")
    assert await find_progress(logs, a_task(state=a_state())) is None, "nothing runs"
