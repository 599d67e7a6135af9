"""Settings that change while the process runs.

The file is looked at every second (`poll`), or at once when asked (`reload`, for SIGHUP). What can change live is
passed to those who subscribed; what cannot is logged and waits for the next start. A file that is broken, or gone for a
moment while somebody replaces it, or just being written, changes nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from rota.config.load import Loaded
from rota.config.settings import SCHEMA, Settings, values_of, with_values
from rota.domain.errors import ConfigError
from rota.domain.setting import Setting
from rota.infrastructure.telemetry.redact import COVER

POLL_EVERY = timedelta(seconds=1)

Subscriber = Callable[[Settings], None]
Stamp = tuple[int, int, int]  # time of change, size, which file it is

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """What a reload found: the settings that are in force from now on, and those that need a new start."""

    applied: frozenset[str] = frozenset()
    restart_needed: frozenset[str] = frozenset()


class LiveSettings:
    """The settings in force. `read` loads and checks all sources anew; `find_file` says which file to watch."""

    def __init__(self, loaded: Loaded, *, read: Callable[[], Loaded], find_file: Callable[[], Path | None]) -> None:
        self._loaded = loaded
        self._read = read
        self._find_file = find_file
        self._subscribers: list[Subscriber] = []
        self._reloading = asyncio.Lock()
        self._waiting: frozenset[str] = frozenset()  # changed in the sources, and needing a new start
        self._stamp: Stamp | None = None  # so the first look reads the file: it may have changed since it was loaded

    @property
    def current(self) -> Settings:
        """What holds now."""
        return self._loaded.settings

    def describe(self) -> list[Setting]:
        """All settings as they hold now, for people to see, and which of them were changed for the next start."""
        return [_cover_plugins(replace(row, is_waiting=row.key in self._waiting)) for row in self._loaded.describe()]

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have it called, on the event loop, with the new settings after every change that can be applied live."""
        self._subscribers.append(subscriber)

    async def poll(self) -> None:
        """Reload if the file has changed or appeared; run it every `POLL_EVERY` through `Loops.keep`."""
        stamp = await asyncio.to_thread(self._look)
        if stamp is not None and stamp != self._stamp and not _is_empty(stamp):
            await self.reload()

    async def reload(self) -> Change:
        """Read everything anew. A change that cannot be read or used is logged, and the old settings stay."""
        async with self._reloading:
            self._stamp = await asyncio.to_thread(self._look)
            try:
                fresh = await asyncio.to_thread(self._read)
            except ConfigError as error:
                log.error("settings.rejected", error=str(error))  # noqa: TRY400 the traceback would say nothing more
                return Change()
            if await asyncio.to_thread(self._look) != self._stamp:  # it was being written: the next poll reads it anew
                return Change()
            return self._apply(fresh)

    def _apply(self, fresh: Loaded) -> Change:
        old, new = values_of(self.current), values_of(fresh.settings)
        changed = {key for key in SCHEMA if old[key] != new[key]}
        live = frozenset(key for key in changed if SCHEMA[key].is_live)
        change = Change(applied=live, restart_needed=frozenset(changed - live))
        self._waiting = change.restart_needed
        if change.restart_needed:
            log.warning("settings.restart_needed", settings=sorted(change.restart_needed))
        if change.applied:
            self._put_in_force(old | {key: new[key] for key in live}, fresh, live=live)
        return change

    def _put_in_force(self, values: dict[str, Any], fresh: Loaded, *, live: frozenset[str]) -> None:
        origins = dict(self._loaded.origins) | {key: fresh.origins[key] for key in live}
        before = _shown(self._loaded, live)
        self._loaded = Loaded(with_values(values), origins, fresh.file)
        log.info("settings.changed", settings=sorted(live), before=before, after=_shown(self._loaded, live))
        for subscriber in self._subscribers:
            try:
                subscriber(self.current)
            except Exception:  # the settings are in force now: the others would never hear of them
                log.exception("settings.not_applied", settings=sorted(live))

    def _look(self) -> Stamp | None:
        path = self._find_file()
        if path is None:
            return None
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _shown(loaded: Loaded, keys: frozenset[str]) -> dict[str, Any]:
    """The values of these settings, secrets covered."""
    return {row.key: _cover_plugins(row).value for row in loaded.describe() if row.key in keys}


def _cover_plugins(row: Setting) -> Setting:
    """What the settings of a plugin mean it alone knows, and an address or a number may be a secret, too."""
    if row.key != "plugins":
        return row
    covered = [{name: one if name == "name" else COVER for name, one in plugin.items()} for plugin in row.value]
    return replace(row, value=covered)


def _is_empty(stamp: Stamp) -> bool:
    """As a file is for a moment when it is written in place."""
    return stamp[1] == 0
