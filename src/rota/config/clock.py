"""What time it is, for commands that ask no server."""

from datetime import datetime

from rota.infrastructure.system import SystemClock


def now() -> datetime:
    return SystemClock().now()
