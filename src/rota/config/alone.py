"""A coordinator in memory is one process's own. Two such processes on one store would not know of each other: they
would depose one another as leaders, and work queued by one would wait for the other to stumble over it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.config.registry import ETCD_SCHEMES, REDIS_SCHEMES, SQL_SCHEMES, scheme_of
from rota.config.settings import Settings
from rota.domain.errors import ConfigError
from rota.infrastructure.file_lock import try_lock
from rota.infrastructure.telemetry.redact import redact_text

SHARED = (*SQL_SCHEMES, *ETCD_SCHEMES, *REDIS_SCHEMES)


class InUseError(ConfigError):
    """Another process has the store, and does not share it."""

    def __init__(self, path: Path, *, holder: str) -> None:
        problem = f"{holder} uses {path} with coordinator.url memory://, which is for one process"
        super().__init__(problem, fix="coordinator.url: sql:// in both, or stop the other one")
        self.holder = holder


def find_refusal(settings: Settings) -> ConfigError | None:
    """Why these settings are for one process, and their store is not; None: they go together."""
    store = settings.store.url
    if scheme_of(settings.coordinator.url) != "memory" or scheme_of(store) not in SHARED or sqlite_file(store):
        return None
    own = "sql://" if scheme_of(store) in SQL_SCHEMES else redact_text(store)
    problem = "coordinator.url: memory:// is for one process, and a store on a server is for many"
    return ConfigError(problem, fix=f"coordinator.url: {own}")


def check_company(settings: Settings, role: str) -> None:
    """Refuse a process of one role where what it needs is in memory, its own: it could never do anything, or take
    tasks that nobody would ever run."""
    refusal = find_refusal(settings)
    if refusal is not None:
        raise refusal
    urls = {"store": settings.store.url, "coordinator": settings.coordinator.url}
    kept = [part for part, url in urls.items() if scheme_of(url) == "memory"]
    if not kept:
        return
    keys = " and ".join(f"{part}.url" for part in kept)
    lack = "an API alone takes tasks that nobody runs" if role == "api" else f"a {role} alone has nothing to do"
    problem = f"{keys}: memory:// is for one process, in which {lack}"
    several = "" if "store" in kept else "; several on one machine need --set coordinator.url=sql:// each"
    raise ConfigError(f"{problem}{several}; one with all roles is rota server, or rota dev", fix="rota server")


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Make sure that nobody shares the store of a process that coordinates in memory."""
    refusal, path = find_refusal(settings), sqlite_file(settings.store.url)
    if refusal is not None:
        raise refusal
    if scheme_of(settings.coordinator.url) != "memory" or path is None:
        yield
        return
    locked = path.with_name(f"{path.name}.lock")
    lock = try_lock(locked)
    if lock is None:
        raise InUseError(path, holder=_read_holder(locked))
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())  # for whoever finds it locked
    try:
        yield
    finally:
        os.close(lock)


def sqlite_file(store_url: str) -> Path | None:
    """The file of a store that is one, else None."""
    return Path(store_url.partition("///")[2]) if scheme_of(store_url) == "sqlite" else None


def _read_holder(locked: Path) -> str:
    number = locked.read_bytes()[:20]
    return f"process {int(number)}" if number.isdigit() else "another process"
