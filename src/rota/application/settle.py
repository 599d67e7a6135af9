"""What passed of a schedule before its config makes room for another: noted, so that nothing is missed in silence."""

from datetime import datetime

import structlog

from rota.application.calendars import calendars_of
from rota.application.ports.store import Store
from rota.domain.broken import firing_failed
from rota.domain.errors import InvalidError
from rota.domain.firing import skip_passed
from rota.domain.task_config import TaskConfig

log = structlog.get_logger(__name__)


async def settle(store: Store, current: TaskConfig, *, wanted: TaskConfig, now: datetime) -> bool:
    """Note, as one range, what the new config will not deal with. True: there was something, so that the next fire time
    is another one now.

    That is what was due while it was disabled or paused, if it is to go on: resuming causes no storm. And it is every
    target that has passed, whether or not it is due yet, if the new one has other targets: they count from now."""
    is_replaced = not wanted.has_targets_of(current)
    if not is_replaced and (current.can_fire or not wanted.is_enabled):
        return False
    calendars = await calendars_of(store.calendars, current.tenant_id, schedule=current.schedule)
    try:
        skipped = skip_passed(current, now, is_replaced=is_replaced, calendars=calendars)
    except InvalidError as exc:  # such as a calendar that cannot be read
        log.warning("schedule.not_settled", task_type=current.type, tenant=current.tenant_id, error=str(exc))
        is_due = current.next_fire_at is not None and current.next_fire_at <= now
        skipped = firing_failed(current, now, problem=str(exc)) if is_due else None
    if skipped is None:
        return False
    await store.schedules.fire([skipped])
    return True
