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
            settings = ("shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min")
            with PostgresServer(durable=True, settings=settings) as postgres:
                yield Place(name, postgres, Path(folder))
