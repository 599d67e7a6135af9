"""The leader's gauges."""

from rota.application import metrics
from rota.application.observe import Observe
from rota.domain.ids import TenantId
from rota.domain.priority import URGENT
from rota.domain.task import PENDING, PROCESSING, SUCCESS
from tests.support.builders import HOUR, a_new_task, a_state, an_entry
from tests.support.scene import Scene, a_scene
from tests.support.virtual import virtually

OTHER = TenantId("other")


def an_observation(scene: Scene) -> Observe:
    coordinator = scene.coordinator
    return Observe(tasks=scene.store.tasks, queue=coordinator.queue, pool=coordinator.pool, collector=scene.figures)


async def _fill(scene: Scene) -> None:
    await scene.join(1)
    await scene.add(1, 2, 3)
    await scene.grant(3)
    foreign = a_state(9, tenant_id=OTHER)
    await scene.actual_store.tasks.add([a_new_task(9, state=foreign, tenant_id=OTHER)])
    later = scene.clock.now() + HOUR
    await scene.actual.queue.push([an_entry(1), an_entry(2, priority=URGENT), an_entry(4, due_at=later)])


@virtually
async def test_everything_is_counted() -> None:
    scene = await a_scene()
    await _fill(scene)
    await an_observation(scene)()
    gauge = scene.figures.gauge
    assert (gauge(metrics.QUEUE_LENGTH, "0"), gauge(metrics.QUEUE_LENGTH, "9")) == (1, 1)
    assert (gauge(metrics.QUEUE_LENGTH, "5"), gauge(metrics.QUEUE_DELAYED)) == (0, 1)
    assert gauge(metrics.WORKERS_ONLINE) == 1
    assert (gauge(metrics.TASKS, PENDING), gauge(metrics.TASKS, PROCESSING)) == (3, 1), "of all tenants"
    assert gauge(metrics.TASKS, SUCCESS) == 0


@virtually
async def test_a_former_leader_tells_nothing_of_the_cluster() -> None:
    scene = await a_scene()
    await _fill(scene)
    await an_observation(scene)()
    an_observation(scene).clear()
    assert scene.figures.gauges == {}
