"""The databases a benchmark runs on: real servers of its own, durable, on private ports, empty for every round."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from bench.usage import cpu_seconds
from rota.infrastructure.database.migrate import upgrade
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer

Server = MariaDbServer | PostgresServer
SEGMENTS = 60  # of 16 MB: 1 GB, as large as MariaDB's log


@dataclass(frozen=True, slots=True)
class Place:
    """One database product."""

    name: str
    server: Server | None
    folder: Path

    async def fresh(self) -> str:
        """The URL of a new, empty, migrated database."""
        url = self.create()
        await upgrade(url)
        return url

    def create(self) -> str:
        """The URL of a new database without tables."""
        name = f"bench_{uuid4().hex[:12]}"
        if self.server is None:
            return f"sqlite:///{self.folder / name}.db"
        self.server.create_database(name)
        return self.server.url(name)

    def settle(self) -> None:
        """Write out what was written, so that nothing of it is left to whoever is measured next."""
        if isinstance(self.server, PostgresServer):
            self.server.execute("CHECKPOINT")

    def cpu_seconds(self) -> float:
        """CPU time the server process has used so far, all its threads and processes together; 0 for SQLite."""
        return 0.0 if self.server is None else cpu_seconds(self.server.pid)


@contextmanager
def place(name: str) -> Iterator[Place]:
    """Start one; it is gone at the end."""
    with TemporaryDirectory() as folder:
        if name in ("sqlite", "redis"):  # a file, or nothing beside the Redis that there is anyway
            yield Place(name, None, Path(folder))
        elif name == "mariadb":
            options = MariaDbOptions(durable=True, buffer_pool_size="1G", log_file_size="1G")
            with MariaDbServer(options) as server:
                yield Place(name, server, Path(folder))
        else:
            settings = ("shared_buffers=512MB", "min_wal_size=1GB", "max_wal_size=4GB", "checkpoint_timeout=30min")
            with PostgresServer(durable=True, settings=settings) as postgres:
                _make_log_segments(postgres)
                yield Place(name, postgres, Path(folder))


def _make_log_segments(server: PostgresServer) -> None:
    """Have those segments of the log that will be written, as after some days of work, and as MariaDB's log is there
    from the start: to make one takes 10 ms, which whoever happens to need it would wait for."""
    made = f"pg_logical_emit_message(false, 'bench', ''), pg_switch_wal() FROM generate_series(1, {SEGMENTS})"
    server.execute(f"SELECT {made}")
    server.execute("CHECKPOINT")  # they are kept to be written again
