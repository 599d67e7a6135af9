"""A report as the server would answer it, of three types over some days."""

from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 11, 9, tzinfo=UTC)
NAMES = ("mean", "min", "max", "p50", "p95", "p99")


def durations(seconds: float, number: int) -> dict[str, Any]:
    scale = (1.1, 0.2, 4.0, 1.0, 2.5, 3.5)
    taken = {f"{name}_seconds": seconds * by if number else None for name, by in zip(NAMES, scale, strict=True)}
    return {"count": number, **taken}


def figures(succeeded: int, failed: int = 0, *, seconds: float = 0.2) -> dict[str, Any]:
    judged = succeeded + failed
    return {
        **{"submitted": judged + 3, "succeeded": succeeded, "failed": failed, "timed_out": 0, "cancelled": 2},
        **{"quarantined": 0, "attempts": judged + failed, "retries": failed},
        "success_rate": succeeded / judged if judged else None,
        "run": durations(seconds, judged),
        "wait": durations(0.01, judged),
    }


def a_report(days: int = 7, *, by: str = "day", zone: str = "UTC") -> dict[str, Any]:
    step = timedelta(days=1) if by == "day" else timedelta(hours=1)
    starts = [BEGIN + place * step for place in range(days)]
    kinds = {"shop.charge": (90, 9, 1.4), "shop.export": (12, 0, 41.0), "shop.greet": (1200, 3, 0.02)}
    items = [
        {
            **{"start": start.isoformat(), "end": (start + step).isoformat(), "type": name},
            **figures(many * (place % 5 + 1), few * (place % 3), seconds=seconds),
        }
        for place, start in enumerate(starts)
        for name, (many, few, seconds) in kinds.items()
        if place != 2
    ]
    types = [
        {"type": name, **figures(many * 20, few * 6, seconds=seconds)} for name, (many, few, seconds) in kinds.items()
    ]
    return {
        **{"begin": BEGIN.isoformat(), "end": (BEGIN + days * step).isoformat(), "by": by, "zone": zone},
        "complete_until": (BEGIN + days * step).isoformat(),
        **{"items": items, "types": types, "totals": figures(26_040, 72, seconds=0.2)},
        **{"slowest": ["shop.export", "shop.charge", "shop.greet"], "most_failing": ["shop.charge", "shop.greet"]},
    }
