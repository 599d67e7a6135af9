"""What `rota dev` gives its sample tasks to do: one of each, one that fails for good, and one that fires by itself."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Schedule
from rota.domain.submission import Submission
from rota.domain.task_config import TaskConfig
from rota.interfaces.cli.dev import SAMPLES

if TYPE_CHECKING:
    from rota.application.services import Services
    from rota.interfaces.cli.dev_service import SampleService

TYPES = ("sample_hello", "sample_flaky", "sample_slow", "sample_primes")
HOPELESS = Submission(type="sample_flaky", name="The other side never answers", payload={"failures": 9})
# Not by the samples themselves: a worker that has them for a benchmark is not to fire anything.
TICK = TaskConfig(
    type="sample_tick",
    description="Greets every ten seconds, by its schedule.",
    executor_config=json.dumps({"function": f"{SAMPLES}:hello"}),
    schedule=Schedule(every=timedelta(seconds=10)),
)


async def submit_samples(services: "Services", service: "SampleService | None") -> None:
    """What somebody changed about the one that fires stays as it is."""
    types = list(TYPES)
    if service is not None:
        types.append(await service.declare(services))
    if await services.node.store.configs.find(DEFAULT_TENANT, TICK.type) is None:
        await services.configs.put(TICK)
    await services.submit.submit_many([*(Submission(type=name) for name in types), HOPELESS])
