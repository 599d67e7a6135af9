"""`rota` on a machine whose clock is wrong by an hour: ahead for schedulers, behind for all others."""

import sys
from datetime import UTC, datetime, timedelta

from rota.infrastructure.system import SystemClock
from rota.interfaces.cli.main import main

HOUR = timedelta(hours=1)


def wrong_now(_clock: SystemClock) -> datetime:
    return datetime.now(UTC) + (HOUR if sys.argv[1] == "scheduler" else -HOUR)


if __name__ == "__main__":
    SystemClock.now = wrong_now  # type: ignore[method-assign, assignment]
    main()
