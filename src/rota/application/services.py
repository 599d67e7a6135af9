"""What the interfaces call: one of each in a process, so that what comes at the same time can share its way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.application.audit import ReadAudit
from rota.application.backfill import Backfill
from rota.application.bulk import BulkTasks
from rota.application.callbacks import AttemptCallbacks
from rota.application.chronicle import ReadChronicle
from rota.application.explain import ExplainTask
from rota.application.figures import Figures
from rota.application.follow import FollowLogs
from rota.application.forecast import ForecastSchedules
from rota.application.manage_calendars import ManageCalendars
from rota.application.manage_configs import ManageConfigs
from rota.application.manage_workers import ManageWorkers
from rota.application.node import Node
from rota.application.report import MakeReport
from rota.application.schedules import LookAtSchedules
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.application.tokens import Tokens
from rota.application.watch import TaskWatch
from rota.domain.setting import Setting

ListSettings = Callable[[], Sequence[Setting]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Every use case that somebody outside may ask for."""

    node: Node
    submit: SubmitTasks
    steer: SteerTasks
    watch: TaskWatch
    explain: ExplainTask
    follow: FollowLogs
    bulk: BulkTasks
    configs: ManageConfigs
    schedules: LookAtSchedules
    calendars: ManageCalendars
    forecast: ForecastSchedules
    backfill: Backfill
    workers: ManageWorkers
    figures: Figures
    report: MakeReport
    tokens: Tokens
    audit: ReadAudit
    chronicle: ReadChronicle
    callbacks: AttemptCallbacks
    settings: ListSettings = tuple  # those in force in this process, where it has any to show


def build_services(node: Node, watch: TaskWatch, *, tokens: Tokens, figures: Figures, explain: ExplainTask) -> Services:
    """All of them on one node."""
    submit, steer, store = SubmitTasks(node), SteerTasks(node), node.store
    return Services(
        node=node,
        submit=submit,
        steer=steer,
        watch=watch,
        explain=explain,
        follow=FollowLogs(store.tasks, store.logs, watch),
        bulk=BulkTasks(node, submit, steer),
        configs=ManageConfigs(node, submit),
        schedules=LookAtSchedules(node),
        calendars=ManageCalendars(node),
        forecast=ForecastSchedules(node),
        backfill=Backfill(node, submit),
        workers=ManageWorkers(node),
        figures=figures,
        report=MakeReport(node),
        tokens=tokens,
        audit=ReadAudit(store.audit),
        chronicle=ReadChronicle(store.audit),
        callbacks=AttemptCallbacks(node),
    )
