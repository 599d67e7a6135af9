"""An installation without an optional library says how to get it. In processes of their own: imports are for good."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["redis"] = None  # as if it were not installed
from rota.config.registry import Registries, Surroundings
from rota.config.settings import with_values
from rota.domain.errors import ConfigError
from rota.infrastructure.system import SystemClock, SystemRandom

settings = with_values({"coordinator.url": "redis://localhost"})
factory = Registries().coordinators.get("redis")
try:
    factory(Surroundings(settings, SystemClock(), SystemRandom()))
except ConfigError as error:
    print(error)
"""

WITHOUT_HTTP = """
import sys
sys.modules["aiohttp"] = None  # as if it were not installed
import asyncio, rota

@rota.task("greet")
async def greet() -> str:
    return "hello"

async def main():
    async with rota.Rota({"store": {"url": "memory://"}, "coordinator": {"url": "memory://"}}) as app:
        handle = await app.submit("greet")
        print((await handle.wait("30s")).status)

asyncio.run(main())
"""


def test_a_missing_library_is_named_with_the_extra_that_brings_it() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 ours

    wheel = "(with a wheel: pip install 'FILE.whl[redis]')"
    assert ran.stdout.strip() == f"the package redis is not installed {wheel}; try: pip install 'rota[redis]'"


WITHOUT_GRPC = """
import sys
sys.modules["grpc"] = None  # as if it were not installed
import rota
from rota.config.registry import Registries, Surroundings, check_executor
from rota.config.settings import Settings
from rota.domain.errors import ConfigError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.system import SystemClock, SystemRandom

try:
    Registries().executors.get("grpc")(Surroundings(Settings(), SystemClock(), SystemRandom()))
except ConfigError as error:
    print(error)
try:
    import rota.grpc_service
except ImportError as error:
    print(error)
check_executor(TaskConfig(type="x", executor_type="grpc", executor_config='{"address": "a:1"}'), Registries())
"""


def test_without_grpc_all_else_works_and_what_needs_it_says_how_to_get_it() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_GRPC], capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 ours

    wheel = "(with a wheel: pip install 'FILE.whl[grpc]')"
    told = f"the package grpc is not installed {wheel}; try: pip install 'rota[grpc]'"
    assert ran.stdout.splitlines() == [told] * 2


def test_a_worker_without_the_http_client_runs_everything_else() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_HTTP], capture_output=True, text=True, timeout=40, check=True)  # noqa: S603 ours

    assert ran.stdout.splitlines()[-1] == "SUCCESS"
