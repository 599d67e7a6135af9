"""All that the API offers, on one node."""

from rota.application.explain import ExplainTask
from rota.application.figures import Figures
from rota.application.services import build_services
from rota.application.tokens import Tokens
from rota.application.watch import TaskWatch
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.task import CANCELLED
from tests.support.builders import a_config, a_submission
from tests.support.virtual import a_bench, virtually


@virtually
async def test_what_one_service_does_the_others_see() -> None:
    node = (await a_bench()).node
    watch = TaskWatch(node.store.tasks, node.coordinator.signals)
    figures = Figures(node, store="memory", coordinator="memory")
    explain = ExplainTask(node.store.tasks, node.store.configs, node.coordinator)
    services = build_services(node, watch, tokens=Tokens(node), figures=figures, explain=explain)
    await node.store.configs.put(a_config())
    task_id = (await services.submit.submit(a_submission())).task_id
    await services.steer.cancel(task_id, DEFAULT_TENANT)
    task = await node.store.tasks.find(task_id, DEFAULT_TENANT)
    assert task is not None
    assert task.state.status is CANCELLED
    assert services.configs.submit is services.submit
