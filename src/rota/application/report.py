"""Reports: read from the sums that the leader keeps, never from the tasks."""

from dataclasses import dataclass, field

from rota.application.node import Node
from rota.application.ports.report import MOST_ROLLUPS, RollupRange
from rota.domain.errors import InvalidError
from rota.domain.ids import TenantId
from rota.domain.report import Report, ReportWish, lay_out
from rota.domain.rollup import Reach, micros

MOST_SUMS = 200_000  # read for one report: about two seconds


@dataclass(frozen=True, slots=True)
class MakeReport:
    node: Node
    reach: Reach = field(default_factory=Reach)
    most_sums: int = MOST_SUMS

    async def __call__(self, tenant_id: TenantId, wish: ReportWish) -> Report:
        """What happened in a tenant. Raises `InvalidError` for what is too much or too long ago."""
        layout = lay_out(wish, now=self.node.time.now(), reach=self.reach)
        reports = self.node.store.reports
        report = Report(layout, (await reports.find_progress()).complete_until)
        begin_us, end_us = micros(layout.edges[0]), micros(layout.edges[-1])
        wanted = RollupRange(tenant_id, layout.grain, begin_us, end_us, wish.types)
        place, read = None, 0
        while True:
            page = await reports.list_rollups(wanted, after=place)
            for one in page:
                report.add(one.start_us, one.type, figures=one.figures)
            read += len(page)
            if len(page) < MOST_ROLLUPS:
                return report
            if read >= self.most_sums:
                raise InvalidError("task_type", "too much for one report: name types, take less time, or zone=UTC")
            place = (page[-1].start_us, page[-1].type)
