"""The workers that the store has on its register, all of them."""

from rota.application.ports.store import WorkerRecord, WorkerRegistry
from rota.domain.ids import WorkerId

PAGE = 1000  # workers read at a time


async def list_registered(workers: WorkerRegistry) -> list[WorkerRecord]:
    """Those that have not ended, as far as anybody knows; a page that is not full is the last."""
    records: list[WorkerRecord] = []
    after: WorkerId | None = None
    while True:
        page = await workers.list_all(after=after, limit=PAGE)
        records += page
        if len(page) < PAGE:
            return records
        after = page[-1].worker.id
