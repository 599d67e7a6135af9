"""Reports, from the sums."""

from datetime import timedelta

import pytest

from rota.application.report import MakeReport
from rota.domain.errors import InvalidError, StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, TenantId
from rota.domain.report import By, ReportWish
from rota.domain.rollup import Figures, Grain, Progress, RollupKey, Step, micros
from rota.testing.faults import Fault
from tests.support.builders import EMAIL
from tests.support.scene import Scene, a_scene
from tests.support.virtual import virtually

HOUR = timedelta(hours=1)


async def keep(scene: Scene, *keys: RollupKey) -> None:
    progress = await scene.actual_store.reports.find_progress()
    after = Progress(progress.version + 1, progress.swept_to, scene.clock.now())
    step = Step(before=progress, after=after, added={key: Figures(succeeded=1) for key in keys}, left={})
    assert await scene.actual_store.reports.roll_up(step)


def a_key(scene: Scene, hours: int, *, task_type: str = EMAIL) -> RollupKey:
    """The sum of an hour, so long ago."""
    start = Grain.HOUR.start_of(micros(scene.clock.now() - hours * HOUR))
    return RollupKey(DEFAULT_TENANT, Grain.HOUR, start, task_type)


@virtually
async def test_a_report_has_the_sums_of_its_tenant_and_time() -> None:
    scene = await a_scene()
    own, old, foreign = a_key(scene, 1), a_key(scene, 30), a_key(scene, 2)._replace(tenant_id=TenantId("other"))
    await keep(scene, own, old, foreign, a_key(scene, 3, task_type="b"))
    report = await MakeReport(scene.node)(DEFAULT_TENANT, ReportWish(by=By.HOUR))
    assert [(micros(one.start), one.type) for one in report.items] == [
        (a_key(scene, 3).start_us, "b"),
        (own.start_us, EMAIL),
    ]
    assert report.totals.succeeded == 2
    assert report.complete_until is not None
    only = await MakeReport(scene.node)(DEFAULT_TENANT, ReportWish(by=By.HOUR, types=frozenset({"b"})))
    assert only.types.keys() == {"b"}


@virtually
async def test_before_anything_was_summed_up_a_report_is_empty() -> None:
    scene = await a_scene()
    report = await MakeReport(scene.node)(DEFAULT_TENANT, ReportWish())
    assert (report.items, report.complete_until) == ([], None)


@virtually
async def test_a_long_report_is_read_in_pages() -> None:
    scene = await a_scene()
    await keep(scene, *(a_key(scene, hours, task_type=f"t{name}") for hours in range(1, 11) for name in range(500)))
    wish = ReportWish(by=By.HOUR)
    report = await MakeReport(scene.node)(DEFAULT_TENANT, wish)
    assert (report.totals.succeeded, len(report.items)) == (5000, 5000)
    with pytest.raises(InvalidError, match="too much for one report: name types"):
        await MakeReport(scene.node, most_sums=2000)(DEFAULT_TENANT, wish)


@virtually
async def test_without_the_store_there_is_no_report() -> None:
    scene = await a_scene()
    scene.faults.inject("reports.list_rollups", Fault.TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await MakeReport(scene.node)(DEFAULT_TENANT, ReportWish())
