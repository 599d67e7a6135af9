"""The program `rota` as it is installed: settings from real files, a real environment, real exit codes."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.cluster import bare_environment

ROTA = Path(sys.executable).with_name("rota")


def rota(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the console script in a folder of its own, with no setting from outside."""
    return subprocess.run(  # noqa: S603 our own program
        [str(ROTA), *arguments],
        cwd=folder,
        env=bare_environment() | environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_console_script_is_installed(tmp_path: Path) -> None:
    ran = rota(tmp_path, "version")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("rota ")


def test_whoever_reads_may_stop_reading(tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 our own program
        [str(ROTA), "settings", "show"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (1, b"")


def test_the_environment_beats_the_file_and_each_value_says_where_it_is_from(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("worker:\n  capacity: 20\n  weight: 3\n", "utf-8")

    ran = rota(tmp_path, "settings", "show", "--origin", "-o", "json", ROTA_WORKER__CAPACITY="30")

    shown = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert (shown["worker.capacity"]["value"], shown["worker.capacity"]["origin"]) == (
        30,
        "environment ROTA_WORKER__CAPACITY",
    )
    assert shown["worker.weight"]["origin"] == "rota.yaml:3"
    assert shown["worker.lease"]["origin"] == "default"


def test_every_mistake_is_told_at_once_and_the_last_line_says_what_to_try(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("worker:\n  capcity: 5\ntask: {timeout: soon}\n", "utf-8")

    ran = rota(tmp_path, "settings", "check", ROTA_LOG__LEVEL="loud", ROTA_SCHEDULER__BALANCER="best")

    assert ran.returncode == 2
    assert "error: unknown setting worker.capcity in rota.yaml:2; did you mean worker.capacity?" in ran.stderr
    assert "error: task.timeout in rota.yaml:3: " in ran.stderr
    assert "error: log.level in environment ROTA_LOG__LEVEL: " in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("try: ")
    assert "Traceback" not in ran.stderr


def test_a_named_file_that_is_missing_is_told(tmp_path: Path) -> None:
    for ran in (
        rota(tmp_path, "settings", "check", "--config", "absent.yaml"),
        rota(tmp_path, "settings", "check", ROTA_CONFIG="absent.yaml"),
    ):
        assert ran.returncode == 2
        assert "absent.yaml cannot be read: No such file or directory" in ran.stderr


def test_a_password_is_never_printed(tmp_path: Path) -> None:
    url = "mysql://root:hunter2@127.0.0.1:1/rota"  # nobody listens at port 1

    shown = rota(tmp_path, "settings", "show", ROTA_STORE__URL=url)
    failed = rota(tmp_path, "db", "status", ROTA_STORE__URL=url)

    assert "mysql://root:***@127.0.0.1:1/rota" in shown.stdout
    assert failed.returncode == 5, "unavailable"
    assert failed.stderr.splitlines()[-1].startswith("try: ")
    assert "hunter2" not in shown.stdout + shown.stderr + failed.stdout + failed.stderr


def test_the_schema_is_made_once_and_found_current(tmp_path: Path) -> None:
    assert rota(tmp_path, "db", "check").returncode == 1
    assert rota(tmp_path, "db", "upgrade").returncode == 0
    assert rota(tmp_path, "db", "check").returncode == 0
    assert (tmp_path / ".rota" / "rota.db").exists()
