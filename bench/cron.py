"""How long does the next fire time of an expression take?

    python bench/cron.py [--rounds 5]

For each expression the median over rounds of a few thousand calls from instants all over twenty years, in microseconds;
and the first call of all, with nothing remembered of the zone. `never` is how long it takes to refuse what never fires.
Exit code 1 when an ordinary one takes more than 20 µs, or the worst more than 2 ms.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.options import parser_of, within
from bench.usage import OthersWatch
from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import parse_cron
from rota.domain.cron.recurrence import Recurrence, recur
from rota.domain.cron.stretches import forget_zones
from rota.domain.errors import InvalidError

ORDINARY = (
    ("*/5 * * * *", "UTC", Dialect.VIXIE),
    ("*/5 * * * *", "Europe/Berlin", Dialect.VIXIE),
    ("30 9 * * 1-5", "America/New_York", Dialect.VIXIE),
    ("0 0 1 * *", "Asia/Shanghai", Dialect.VIXIE),
    ("*/10 * * * * *", "Europe/Berlin", Dialect.VIXIE),
    ("0 15 10 ? * 6L", "America/New_York", Dialect.QUARTZ),
    ("0 0 12 LW * ?", "Australia/Lord_Howe", Dialect.QUARTZ),
)
RARE = (
    ("0 0 29 2 *", "Europe/Berlin", Dialect.VIXIE),
    ("0 0 0 ? 2 2#5", "America/New_York", Dialect.QUARTZ),
    ("0 0 0 29 2 ? 2096", "Europe/Berlin", Dialect.QUARTZ),
)
NEVER = "0 0 30 2 *"
MOST_ORDINARY_US, MOST_RARE_US = 20.0, 2000.0
CALLS = 2000


def main(arguments: Sequence[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=within(1), default=5, help="the result is their median")
    rounds, watch = parser.parse_args(arguments).rounds, OthersWatch()
    random = Random(1)
    instants = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=random.random() * 6.3e8) for _ in range(CALLS)]
    is_good = True
    print(f"{'expression':22} {'zone':22} {'next':>9} {'previous':>9} {'first call':>11}")
    for most, group in ((MOST_ORDINARY_US, ORDINARY), (MOST_RARE_US, RARE)):
        for text, zone, dialect in group:
            recurrence = recur(parse_cron(text, dialect=dialect), zone=zone)
            cold = _cold(recurrence, instants[0])
            forward = _each(recurrence.next, instants, rounds=rounds)
            back = _each(recurrence.previous, instants, rounds=rounds)
            is_good &= max(forward, back) <= most and cold <= MOST_RARE_US
            print(f"{text:22} {zone:22} {forward:6.1f} µs {back:6.1f} µs {cold:8.0f} µs")
    never = _refusal()
    print(f"{NEVER:22} {'refused as never':22} {never:6.1f} µs")
    print(watch.spell())
    return 0 if is_good and never <= MOST_RARE_US else 1


def _each(call: Callable[[datetime], object], instants: Sequence[datetime], *, rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = perf_counter()
        for instant in instants:
            call(instant)
        taken.append((perf_counter() - began) / len(instants) * 1e6)
    return median(taken)


def _cold(recurrence: Recurrence, instant: datetime) -> float:
    forget_zones()
    began = perf_counter()
    recurrence.next(instant)
    return (perf_counter() - began) * 1e6


def _refusal() -> float:
    began = perf_counter()
    for _ in range(20):
        try:
            parse_cron(NEVER)
        except InvalidError:
            continue
    return (perf_counter() - began) / 20 * 1e6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
