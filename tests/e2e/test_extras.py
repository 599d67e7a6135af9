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


def test_a_missing_library_is_named_with_the_extra_that_brings_it() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 ours

    assert ran.stdout.strip() == "the package redis is not installed; try: pip install 'rota[redis]'"
