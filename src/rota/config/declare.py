"""Decorated functions become task configs: what the code says is declared to the store when a worker starts.

The config remembers which declaration made it. While the code says the same, the config is left alone, so what an
operator changes stays changed. When the code says something new, the new options take effect at the next start; whether
the config is enabled, its payload and a pause of its schedule stay the operator's, and so does its schedule where the
code never named one: what the code named and names no more goes. A config that somebody has put is theirs: where the
code says otherwise, that is told in the log. A description comes from the docstring where none is given, and is filled
in where a config has none. Each revision that the code makes names the node whose code it is, and is on record with
what it changed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from rota.application.audit import Actor, record
from rota.application.calendars import calendars_of
from rota.application.node import Node
from rota.application.settle import settle
from rota.config.settings import TaskSettings
from rota.domain.audit import MAX_ACTOR, AuditEntry
from rota.domain.checks import tidy_text
from rota.domain.declaration import find_declaration, mark, names_schedule, unscheduled
from rota.domain.errors import InvalidError, RevisionConflictError
from rota.domain.firing import Calendars, check_schedule, first_fire_at
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.retry import RetryPolicy
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig
from rota.sdk.tasks import TaskDefinition, TaskFunction

UNSAID = ", retry_on=(), give_up_on=(), total_timeout=None"  # not there in what an earlier release declared
UNSCHEDULED = ", schedule=None"  # nor this
SAID = ("schedule", "timeout", "retry", "priority", "max_concurrent", "rate_per_second")  # by the code
TOLD = ("name", "description", *SAID)  # of what a start changes
MOST_TRIES = 5  # workers that start at once declare the same types at once

log = structlog.get_logger(__name__)


async def declare(
    functions: Iterable[TaskFunction[..., Any]], node: Node, *, defaults: TaskSettings, now: datetime
) -> None:
    """Let the store of this node know every function of the app; schedules begin now."""
    for function in functions:
        wanted = replace(_config(function.definition, defaults), description=function.description)
        named = await calendars_of(node.store.calendars, wanted.tenant_id, schedule=wanted.schedule)
        if wanted.schedule is not None and (missing := wanted.schedule.calendars - named.keys()):
            wanted = _without_schedule(wanted, sorted(missing), function=function.reference)
        with _about(function):
            check_schedule(wanted, named)
        if wanted.schedule is not None and first_fire_at(wanted, now, calendars=named) is None:
            log.warning("config.never_fires", task_type=wanted.type, function=function.reference)
        await _declare(wanted, node, calendars=named, now=now)


@contextmanager
def _about(function: TaskFunction[..., Any]) -> Iterator[None]:
    """Let a mistake name the function whose declaration it is in."""
    try:
        yield
    except InvalidError as error:
        raise InvalidError(f"{function.reference}: {error.field}", error.problem) from error


def _without_schedule(wanted: TaskConfig, missing: Sequence[str], *, function: str) -> TaskConfig:
    """A calendar can only be put where a server runs, so its lack must not stop one. The schedule is declared by a
    later start: until then this is no whole declaration."""
    log.warning(
        "config.schedule_left_out",
        task_type=wanted.type,
        function=function,
        problem=f"there is no calendar {', '.join(missing)}",
        fix=f"rota calendar put {missing[0]}, then start this again",
    )
    declaration = unscheduled(find_declaration(wanted) or "", missing)
    return replace(wanted, schedule=None, executor_config=mark(declaration, names_schedule=True))


async def _declare(wanted: TaskConfig, node: Node, *, calendars: Calendars, now: datetime) -> None:
    store, author = node.store, tidy_text(node.id, longest=MAX_ACTOR)
    for _ in range(MOST_TRIES):
        current = await store.configs.find(DEFAULT_TENANT, wanted.type)
        if current is not None and not _is_news(wanted, current):
            _tell_difference(wanted, current)
            if not _lacks_description(wanted, current):
                return
            merged = replace(current, description=wanted.description)
        else:
            first = first_fire_at(wanted, now, calendars=calendars, current=current)
            merged = _merge(replace(wanted, next_fire_at=first), current)
            if current is not None and await settle(store, current, wanted=merged, now=now):
                continue
        audit = _entries(node, merged, current=current)
        try:
            put = await store.configs.put(
                replace(merged, updated_by=author), expected_revision=current.revision if current else 0, audit=audit
            )
        except RevisionConflictError:
            continue  # another worker was faster, most likely with the same
        log.info("config.declared", task_type=put.type, revision=put.revision, detail=audit[0].detail)
        return


def _entries(node: Node, merged: TaskConfig, *, current: TaskConfig | None) -> Sequence[AuditEntry]:
    """What is kept of it that the code of this node makes or changes a config."""
    itself = Actor(tenant_id=merged.tenant_id, name=node.id)
    differs = [] if current is None else [name for name in TOLD if getattr(merged, name) != getattr(current, name)]
    detail = "new" if current is None else ", ".join(differs)
    return record(node, itself, action="config.declare", subject=merged.type, detail=detail)


def _is_news(wanted: TaskConfig, current: TaskConfig) -> bool:
    """Whether the code says something else than when it made this config. Somebody else's config is left alone."""
    made_by = find_declaration(current)
    return made_by is not None and made_by != find_declaration(wanted)


def _lacks_description(wanted: TaskConfig, current: TaskConfig) -> bool:
    """Whether the code tells what the type is for, and the config that it made does not. A docstring is no news: it
    must not undo what an operator changed."""
    return not current.description and bool(wanted.description) and find_declaration(current) is not None


def _merge(wanted: TaskConfig, current: TaskConfig | None) -> TaskConfig:
    if current is None:
        return wanted
    kept = replace(wanted, is_enabled=current.is_enabled, payload=current.payload)
    if wanted.schedule is not None:
        return replace(kept, schedule=_with_pause_of(current, wanted.schedule))
    if names_schedule(current) and not names_schedule(wanted):  # the code named one, and does not any more
        return kept
    return replace(kept, schedule=current.schedule, next_fire_at=current.next_fire_at)


def _with_pause_of(current: TaskConfig, schedule: Schedule) -> Schedule:
    """What the code says, paused where an operator has paused it."""
    paused = current.schedule
    if paused is None or not paused.is_paused or schedule.is_paused:
        return schedule
    return replace(schedule, is_paused=True, pause_note=paused.pause_note)


def _tell_difference(wanted: TaskConfig, current: TaskConfig) -> None:
    """Say what the code says and does not take effect, since somebody has put the config."""
    if find_declaration(current) is not None:
        return
    meant = _merge(wanted, current)
    differs = [name for name in SAID if getattr(meant, name) != getattr(current, name)]
    if differs:
        log.warning(
            "config.differs_from_code",
            task_type=wanted.type,
            fields=differs,
            revision=current.revision,
            updated_by=current.updated_by,
            fix=f"change what was applied, or rota config-type rm {wanted.type} and start this again",
        )


def _config(definition: TaskDefinition, defaults: TaskSettings) -> TaskConfig:
    said = {
        "timeout": definition.timeout,
        "priority": definition.priority,
        "max_concurrent": definition.max_concurrent,
        "rate_per_second": definition.rate_per_second,
    }
    return TaskConfig(
        type=definition.type,
        name=definition.name,
        description=definition.description,
        executor_type="local",
        executor_config=mark(_digest(definition, defaults), names_schedule=definition.schedule is not None),
        retry=_retry(definition, defaults),
        schedule=definition.schedule,
        **{"timeout": defaults.timeout} | {key: value for key, value in said.items() if value is not None},  # type: ignore[arg-type]
    )


def _retry(definition: TaskDefinition, defaults: TaskSettings) -> RetryPolicy:
    delay = defaults.retry_delay if definition.retry_delay is None else definition.retry_delay
    return RetryPolicy(
        max_retries=defaults.max_retries if definition.retries is None else definition.retries,
        delay=delay,
        backoff_rate=defaults.backoff_rate,
        max_delay=max(RetryPolicy().max_delay, delay),
        retry_on=definition.retry_on,
        give_up_on=definition.give_up_on,
        total_timeout=definition.total_timeout,
    )


def _digest(definition: TaskDefinition, defaults: TaskSettings) -> str:
    """Of all that the declaration takes effect with: a changed default is a changed declaration, too."""
    effective = (definition, definition.timeout or defaults.timeout, _retry(definition, defaults))
    said = repr(effective).replace(UNSAID, "").replace(UNSCHEDULED, "")
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
