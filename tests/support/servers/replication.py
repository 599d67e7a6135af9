"""A database that has a replica, and what an operator does when the replica takes its place.

Both kinds acknowledge a commit only when the replica has it too (semi-synchronous in MariaDB, synchronous in
PostgreSQL), unless `waits=False`: what clients were told then survives the loss of the primary.
"""

import time
from abc import abstractmethod
from typing import Protocol, Self

from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.process import run_tool

CAUGHT_UP_WITHIN_S = 20.0
POLL_S = 0.02
USER = "rota"


class Replicated(Protocol):
    """A primary and its replica, as contexts that are left together."""

    primary_port: int
    replica_port: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @abstractmethod
    def url(self, port: int) -> str:
        """Where an ordinary user finds the database, through a port that leads to either server."""

    @abstractmethod
    def demote(self) -> None:
        """Let the primary take no more writes, and the replica have all of those that it took."""

    @abstractmethod
    def crash(self) -> None:
        """Kill the primary."""

    @abstractmethod
    def promote(self) -> None:
        """Let the replica take writes."""


class ReplicatedMariaDb(Replicated):
    """By GTID and row events. A demoted primary goes on serving, read-only: clients that stay connected must leave."""

    def __init__(self, *, waits: bool = True) -> None:
        self._primary, self._replica = (_Member(_options(number, waits=waits)) for number in (1, 2))
        self.primary_port, self.replica_port = self._primary.port, self._replica.port

    def __enter__(self) -> Self:
        try:
            self._primary.make()
            self._replica.make(like=self._primary)
            for server in (self._primary, self._replica):
                server.start()
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._replica.close()
        self._primary.close()

    def url(self, port: int) -> str:
        return f"mysql://{USER}@127.0.0.1:{port}/rota"

    def demote(self) -> None:
        self._primary.execute("SET GLOBAL read_only=1")  # waits for the transactions under way
        self.catch_up()

    def crash(self) -> None:
        self._primary.kill()

    def promote(self) -> None:
        self._replica.execute("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only=0")

    def catch_up(self) -> None:
        position = self._primary.execute("SELECT @@gtid_binlog_pos").strip()
        answer = self._replica.execute(f"SELECT MASTER_GTID_WAIT('{position}', {CAUGHT_UP_WITHIN_S})").strip()
        assert answer == "0", f"the replica is not at {position}: {self._replica.execute('SHOW SLAVE STATUS')}"

    def _join(self) -> None:
        """Both have been made alike, so what made them is no part of the log."""
        for server in (self._primary, self._replica):
            server.create_database("rota")
            server.execute(f"CREATE USER {USER}@'%'; GRANT ALL ON rota.* TO {USER}@'%'; RESET MASTER")
        source = f"MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary_port}, MASTER_USER='root', MASTER_CONNECT_RETRY=1"
        self._replica.execute(
            f"SET GLOBAL read_only=1; CHANGE MASTER TO {source}, MASTER_USE_GTID=slave_pos; START SLAVE"
        )


class _Member(MariaDbServer):
    def make(self, *, like: "_Member | None" = None) -> None:
        """Its folder, before it starts: a new one, or a copy, which takes a fraction of the time."""
        if like is None:
            self._initialise()
        else:
            run_tool(["cp", "--archive", str(like._data), str(self._data)], self.directory)


def _options(number: int, *, waits: bool) -> MariaDbOptions:
    logging = ("--log-bin=changes", f"--server-id={number}", "--log-slave-updates", "--binlog-format=ROW")
    waiting = (
        "--rpl-semi-sync-master-enabled=ON",
        "--rpl-semi-sync-slave-enabled=ON",
        "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
        "--rpl-semi-sync-master-timeout=600000",
        "--rpl-semi-sync-master-wait-no-slave=OFF",
    )
    return MariaDbOptions(extra=(*logging, *(waiting if waits else ())))


class ReplicatedPostgres(Replicated):
    """By streaming. A primary that is demoted is stopped, as it must be before it can follow another."""

    def __init__(self, *, waits: bool = True) -> None:
        self._waits = waits
        self._primary = PostgresServer()
        self._replica = _Standby(self._primary.port)
        self.primary_port, self.replica_port = self._primary.port, self._replica.port

    def __enter__(self) -> Self:
        self._primary.__enter__()
        try:
            self._replica.__enter__()
        except BaseException:
            self._primary.close()
            raise
        if self._waits:
            self._primary.execute("ALTER SYSTEM SET synchronous_standby_names='*'")
            self._primary.execute("SELECT pg_reload_conf()")
        return self

    def __exit__(self, *_: object) -> None:
        self._replica.close()
        self._primary.kill()  # it would wait for a replica that is gone
        self._primary.close()

    def url(self, port: int) -> str:
        return f"postgresql://{USER}@127.0.0.1:{port}/rota"

    def demote(self) -> None:
        self._primary.stop()  # which sends the replica the last of it

    def crash(self) -> None:
        self._primary.kill()

    def promote(self) -> None:
        self._replica.promote()


class _Standby(PostgresServer):
    def __init__(self, primary_port: int) -> None:
        super().__init__()
        self._primary_port = primary_port

    def start(self) -> None:
        if not self._data.exists():
            source = ["--host=127.0.0.1", f"--port={self._primary_port}", f"--username={USER}"]
            how = ["--wal-method=stream", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
            run_tool([str(self._bin / "pg_basebackup"), f"--pgdata={self._data}", *source, *how], self.directory)
        super(PostgresServer, self).start()
        self._wait_until_it_streams()

    def promote(self) -> None:
        run_tool([str(self._bin / "pg_ctl"), "promote", "--wait", f"--pgdata={self._data}"], self.directory)

    def _wait_until_it_streams(self) -> None:
        give_up_at = time.monotonic() + CAUGHT_UP_WITHIN_S
        while not self.execute("SELECT 1 FROM pg_stat_wal_receiver WHERE status='streaming'").strip():
            assert time.monotonic() < give_up_at, "the replica does not stream"
            time.sleep(POLL_S)
