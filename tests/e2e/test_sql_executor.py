"""The example of an executor in a package of its own: installed, found by its entry points, and run whole."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any
from zipfile import ZipFile

import pytest

import rota
from rota.config.registry import Registries, Surroundings
from rota.config.settings import Settings
from rota.domain.errors import ConfigError, InvalidError
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.sdk.views import TaskView
from tests.support.cluster import wait_until
from tests.support.names import fresh_name
from tests.support.sample_plugin.install import installed
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.process import free_port
from tests.support.typed import ROOT, a_shell, type_document

EXAMPLE = ROOT / "examples" / "sql_executor"
GUIDE = ROOT / "docs" / "guides" / "write-an-executor.md"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
MOST_AT_ONCE = 10
pytestmark = pytest.mark.timeout(180)

BOTH = """
[statements.{db}_find]
database = "{db}"
sql = "SELECT id, customer, due FROM orders WHERE customer = $1 AND due < $2 ORDER BY id"
parameters = ["customer", "before"]
[statements.{db}_pay]
database = "{db}"
sql = "INSERT INTO payment (task, order_id) VALUES ($1, $2) ON CONFLICT (task) DO NOTHING"
parameters = ["task.id", "order"]
[statements.{db}_pay_twice]
database = "{db}"
sql = "INSERT INTO payment (task, order_id) VALUES ('one', $1)"
parameters = ["order"]
[statements.{db}_count]
database = "{db}"
sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
[statements.{db}_endless]
database = "{db}"
sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
[statements.{db}_book]
database = "{db}"
sql = "INSERT INTO payment (task, order_id) VALUES ('big', 1) RETURNING {big} AS big"
[statements.{db}_broken]
database = "{db}"
sql = "SELECT nothing FROM nowhere"
"""
FILE = """
[databases]
lite = "sqlite:///shop.db"
gone = "sqlite:///nowhere.db"
post = "{url}"
down = "postgresql://rota@127.0.0.1:{closed}/rota"
[statements.gone]
database = "gone"
sql = "SELECT 1"
[statements.down]
database = "down"
sql = "SELECT 1"
[statements.contended]
database = "post"
sql = "SELECT contended()"
[statements.limit]
database = "post"
sql = "SELECT current_setting('statement_timeout') AS most"
[statements.uneven]
database = "post"
sql = "SELECT $1::int"
"""
SCHEMA = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, due {date} NOT NULL);
CREATE TABLE payment (task TEXT PRIMARY KEY, order_id INTEGER NOT NULL);
INSERT INTO orders VALUES (1, 'Ada', '2026-01-10'), (2, 'Ada', '2026-02-10'), (3, 'Bob', '2026-01-01');
"""
CONTENDED = """
CREATE SEQUENCE tries;
CREATE FUNCTION contended() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('tries') < 2 THEN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END IF;
  RETURN currval('tries'); END $$;
"""
BUSY = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'WITH RECURSIVE%' AND state = 'active'"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the package is installed: a wheel is unpacked, which is what pip does, in a tenth of its time."""
    folder = tmp_path_factory.mktemp("packages")
    copytree(EXAMPLE, folder / "source")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=folder / "source", check=True, capture_output=True, timeout=100)  # noqa: S603 ours
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(folder / "target")
    return folder / "target"


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> str:
    name = fresh_name("sql_executor")
    postgres_server.create_database(name)
    postgres_server.execute(SCHEMA.format(date="DATE") + CONTENDED, database=name)
    return name


@pytest.fixture(scope="module")
def client(
    packages: Path, postgres_server: PostgresServer, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[rota.Client]:
    """Of a `rota dev` that has found the package, with one database of each kind."""
    folder = tmp_path_factory.mktemp("dev")
    with sqlite3.connect(folder / "shop.db") as made:
        made.executescript(SCHEMA.format(date="TEXT"))
    made.close()
    text = FILE.format(url=postgres_server.url(database), closed=free_port())
    big = {"lite": "hex(zeroblob(40000))", "post": "repeat('x', 80000)"}
    (folder / "sql.toml").write_text(text + "".join(BOTH.format(db=db, big=sql) for db, sql in big.items()), "utf-8")
    with a_shell(folder) as shell:
        shell.variables["PYTHONPATH"] = str(packages)
        (folder / "idle.py").write_text("import rota\n@rota.task('idle')\nasync def idle() -> None: ...\n", "utf-8")
        shell.start("dev", "rota dev idle.py", until="…rota top")
        token = (folder / ".rota" / "token").read_text("utf-8").strip()
        with rota.Client(shell.variables["ROTA_URL"], token) as client:
            yield client


def put(client: rota.Client, statement: str, **more: Any) -> None:
    definition = {"timeout_seconds": 30, "retry": {"max_retries": 2, "delay_seconds": 0.05}, **more}
    executor = {"type": "sql", "statement": statement, **definition.pop("executor", {})}
    client.configs.put(statement, {"executor": executor, **definition})


def run(client: rota.Client, statement: str, *, payload: Any = None, **more: Any) -> TaskView:
    put(client, statement, **more)
    return client.submit(statement, payload or {}).wait("60s")


def data(task: TaskView) -> Any:
    assert task.result is not None, task.error
    return task.result.data


def failure(task: TaskView) -> tuple[str, int, str]:
    assert task.error is not None
    return task.status, task.attempt, task.error.code


each = pytest.mark.parametrize("db", ["lite", "post"])


@each
def test_rows_are_the_result_and_values_stay_values(client: rota.Client, db: str) -> None:
    found = run(client, f"{db}_find", payload={"customer": "Ada", "before": "2026-02-01"})
    assert data(found) == {"rows": [{"id": 1, "customer": "Ada", "due": "2026-01-10"}], "has_more": False}
    sly = run(client, f"{db}_find", payload={"customer": "' OR 1=1 --", "before": "2026-02-01"})
    assert data(sly) == {"rows": [], "has_more": False}


@pytest.mark.slow
@each
def test_a_change_is_made_once_for_each_task(client: rota.Client, db: str) -> None:
    assert data(run(client, f"{db}_pay", payload={"order": 7})) == {"changed": 1}
    assert data(run(client, f"{db}_pay_twice", payload={"order": 7})) == {"changed": 1}
    code = {"lite": "sqlite_constraint_primarykey", "post": "sql_23505"}[db]
    assert failure(run(client, f"{db}_pay_twice", payload={"order": 7})) == ("FAILED", 1, code)


@pytest.mark.slow
@each
def test_what_is_wrong_with_a_task_is_final(client: rota.Client, db: str) -> None:
    assert failure(run(client, f"{db}_find", payload={"customer": "Ada"})) == ("FAILED", 1, "missing_parameter")
    nested = run(client, f"{db}_find", payload={"customer": {"a": 1}, "before": "x"})
    assert failure(nested) == ("FAILED", 1, {"lite": "sqlite_error", "post": "sql_22000"}[db])
    broken = run(client, f"{db}_broken")
    assert failure(broken) == ("FAILED", 1, {"lite": "sqlite_error", "post": "sql_42p01"}[db])


@pytest.mark.slow
@each
def test_rows_beyond_the_bound_are_not_even_read(client: rota.Client, db: str) -> None:
    task = run(client, f"{db}_count", executor={"max_rows": 3})
    assert data(task) == {"rows": [{"i": 1}, {"i": 2}, {"i": 3}], "has_more": True}


@pytest.mark.slow
@each
def test_what_cannot_be_told_is_undone(client: rota.Client, db: str) -> None:
    for _ in range(2):  # the second one would be a duplicate
        assert failure(run(client, f"{db}_book")) == ("FAILED", 1, "result_too_large")


@pytest.mark.slow
@each
def test_a_statement_ends_at_its_deadline(client: rota.Client, postgres_server: PostgresServer, db: str) -> None:
    task = run(client, f"{db}_endless", timeout_seconds=0.3, retry={"max_retries": 0})
    assert failure(task) == ("TIMEOUT", 1, "timeout")
    wait_until(lambda: postgres_server.execute(BUSY).strip() == "0", "the statement to end in the server")


@pytest.mark.slow
@each
def test_a_statement_ends_with_its_task(client: rota.Client, postgres_server: PostgresServer, db: str) -> None:
    put(client, f"{db}_endless", timeout_seconds=600)  # so that nothing but the cancel ends it
    handles = client.submit_many(f"{db}_endless", [{}] * MOST_AT_ONCE)  # as many as the worker and the database take
    wait_until(lambda: client.tasks.get(handles[-1].id).status == "PROCESSING", "the tasks to run")
    if db == "post":
        wait_until(lambda: int(postgres_server.execute(BUSY)) > 0, "a statement to run in the server")
    for handle in handles:
        handle.cancel()
    assert {handle.wait("30s").status for handle in handles} == {"CANCELLED"}
    wait_until(lambda: postgres_server.execute(BUSY).strip() == "0", "the statements to end in the server")
    assert data(run(client, f"{db}_count", executor={"max_rows": 1}))["has_more"]  # there is room for more


@pytest.mark.slow
def test_the_server_knows_the_deadline_should_the_worker_be_gone_by_then(client: rota.Client) -> None:
    ((most,),) = [row.values() for row in data(run(client, "limit", timeout_seconds=20))["rows"]]
    assert 0 < int(most.removesuffix("ms")) <= 20_000


@pytest.mark.slow
def test_what_another_try_may_mend_is_tried_again(client: rota.Client) -> None:
    task = run(client, "contended")
    assert (data(task)["rows"], task.attempt) == ([{"contended": 2}], 2)
    assert failure(run(client, "down")) == ("FAILED", 3, "connection_failed")


@pytest.mark.slow
def test_a_statement_whose_entry_lists_too_few_parameters_is_told(client: rota.Client) -> None:
    assert failure(run(client, "uneven")) == ("FAILED", 1, "bad_statement")


@pytest.mark.slow
def test_a_file_that_is_not_there_is_not_made(client: rota.Client) -> None:
    assert failure(run(client, "gone")) == ("FAILED", 1, "sqlite_cantopen")


@pytest.mark.parametrize(
    ("executor", "field"),
    [
        ({}, "executor.statement"),
        ({"statement": "no name"}, "executor.statement"),
        ({"statement": "x", "sql": "DROP TABLE orders"}, "executor.sql"),
        ({"statement": "x", "max_rows": 0}, "executor.max_rows"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(client: rota.Client, executor: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as refused:
        client.configs.put("refused", {"executor": {"type": "sql", **executor}})
    assert field in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x =", "cannot be used"),
        ("[statements.a]\nsql = 'x'", "missing required field `database`"),
        ("[databases]\na = 'oracle://x'", "databases.a must begin with one of sqlite, postgresql"),
        ("[statements.a]\nsql = 'x'\ndatabase = 'b'", "statements.a: there is no database 'b'"),
    ],
)
def test_a_file_that_makes_no_sense_keeps_a_worker_from_starting(
    packages: Path, tmp_path: Path, *, text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    monkeypatch.setenv("SQL_EXECUTOR_FILE", str(tmp_path / "mine.toml"))
    with installed(packages), pytest.raises(ConfigError, match=problem):
        Registries().executors.get("sql")(Surroundings(Settings(), SystemClock(), SystemRandom()))


def test_the_worker_s_file_in_the_guide_is_that_of_the_example() -> None:
    assert f"```toml\n{(EXAMPLE / 'sql.toml').read_text('utf-8')}```" in GUIDE.read_text("utf-8")


def test_the_guide_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    copytree(EXAMPLE, tmp_path / "sql_executor")
    with a_shell(tmp_path) as shell:
        shell.variables |= {**OFFLINE, "PIP_TARGET": str(tmp_path / "target"), "PYTHONPATH": str(tmp_path / "target")}
        assert type_document(shell, GUIDE.read_text("utf-8")) > 3
