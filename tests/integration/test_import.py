"""What `import rota` brings along: users import it everywhere, so it must stay light."""

import subprocess
import sys
from pathlib import Path

HEAVY = (
    "alembic",
    "asyncio",
    "ctypes",
    "google.protobuf",
    "grpc",
    "httpx2",
    "sqlalchemy",
    "structlog",
    "uvloop",
)


def imported_by(module: str) -> set[str]:
    return left_by(f"import {module}")


def left_by(code: str, *arguments: str) -> set[str]:
    """The modules that are there when this has run."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)", *arguments]
    run = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 - our own code
    return set(run.stdout.split())


def test_importing_rota_brings_no_library_and_no_event_loop() -> None:
    assert imported_by("rota").isdisjoint(HEAVY)


def test_a_child_process_needs_no_event_loop_and_no_database() -> None:
    loaded = imported_by("rota.infrastructure.executors.local.child")

    assert loaded.isdisjoint({"alembic", "asyncio", "sqlalchemy", "structlog", "uvloop"})


def test_who_finds_the_schema_as_it_should_be_needs_no_alembic(tmp_path: Path) -> None:
    migrate = (
        "import asyncio; from rota.infrastructure.database.migrate import upgrade; asyncio.run(upgrade(sys.argv[1]))"
    )
    database = f"sqlite:///{tmp_path}/rota.db"

    assert "alembic" in left_by(migrate, database), "it makes the schema"
    assert left_by(migrate, database).isdisjoint({"alembic", "mako"})


def test_a_client_brings_no_store_and_no_schedules() -> None:
    loaded = imported_by("rota.client.blocking")

    assert loaded.isdisjoint({"rota.application.ports.store", "rota.domain.schedule", "rota.embedding"})


def test_a_command_brings_only_what_it_needs() -> None:
    loaded = imported_by("rota.interfaces.cli.main")

    assert loaded.isdisjoint({*HEAVY, "rich", "starlette", "uvicorn", "yaml"} - {"asyncio", "ctypes"})
    assert not {name for name in loaded if name.startswith(("rota.config", "rota.client", "rota.interfaces.cli.task"))}
