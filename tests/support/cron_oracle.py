"""A second opinion on cron: random expressions whose meaning is known without parsing, and fire times found by looking.

Each part of an expression is made together with the plain set or predicate that it stands for. The oracle then walks
through a stretch of time, minute by minute or second by second, looks at what the clock of the zone shows, and applies
the rules of daylight saving as they are written in docs/explanation/daylight-saving.md. It shares no code with the
evaluator but the names of its policies.
"""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from random import Random
from zoneinfo import ZoneInfo

from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import CronExpression, parse_cron
from rota.domain.cron.recurrence import CronRecurrence, DstGap, DstOverlap
from rota.domain.errors import InvalidError

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "America/Sao_Paulo",
    "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu", "Antarctica/Troll",
    "Africa/Cairo", "Asia/Tehran", "Pacific/Kiritimati", "America/Caracas", "Asia/Pyongyang", "Europe/Dublin",
)  # fmt: skip
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
WHOLE_DAY_ZONES = ("Pacific/Apia",)  # left out a day
SAMPLES_PER_SCENE = 25
DayTest = Callable[[date], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An expression and what it means."""

    text: str
    dialect: Dialect
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    years: frozenset[int] | None
    is_day: DayTest
    is_interval_like: bool

    def shows(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.second in self.seconds
            and self.is_date(wall.date())
        )

    def is_date(self, day: date) -> bool:
        return day.month in self.months and (self.years is None or day.year in self.years) and self.is_day(day)


def random_sample(
    random: Random, *, with_seconds: bool = False, is_rare: bool = False, hot: Sequence[datetime] = ()
) -> Sample:
    """An expression of any kind; one of few fires; or, given wall times, one that names such a time of the day."""
    dialect = random.choice((Dialect.VIXIE, Dialect.QUARTZ))
    is_quartz = dialect is Dialect.QUARTZ
    second = _numbers(random, (0, 59), wraps=is_quartz) if with_seconds else ("0", frozenset({0}), False)
    minute = _numbers(random, (0, 59), wraps=is_quartz, is_rare=is_rare)
    hour = _numbers(random, (0, 23), wraps=is_quartz, is_rare=is_rare)
    month = _months(random, wraps=is_quartz, is_rare=is_rare)
    day, weekday, is_day = _days(random, is_quartz=is_quartz, is_rare=is_rare)
    if hot:
        wall = random.choice(hot)
        minute, hour = _around(random, wall.minute, most=59), _around(random, wall.hour, most=23)
        if random.random() < 0.6:
            day, weekday, is_day = "*", "?" if is_quartz else "*", lambda _: True
            month = ("*", frozenset(range(1, 13)), True)
    years = frozenset(range(random.randint(2005, 2024), 2045)) if is_quartz and random.random() < 0.2 else None
    parts = [minute[0], hour[0], day, month[0], weekday]
    if with_seconds or is_quartz:
        parts.insert(0, second[0])
    if years is not None:
        parts.append(f"{min(years)}-{max(years)}")
    return Sample(
        text=" ".join(parts) if random.random() < 0.8 else " ".join(parts).lower(),
        dialect=dialect,
        seconds=second[1],
        minutes=minute[1],
        hours=hour[1],
        months=month[1],
        years=years,
        is_day=is_day,
        is_interval_like=minute[2] or hour[2],
    )


Numbers = tuple[str, frozenset[int], bool]


def _numbers(random: Random, bounds: tuple[int, int], *, wraps: bool, is_rare: bool = False) -> Numbers:
    """A field of plain numbers: its text, its values, and whether it is a pace."""
    low, high = bounds
    style = random.choice(("value", "list")) if is_rare else random.choice(STYLES)
    first, last = sorted((random.randint(low, high), random.randint(low, high)))
    step = random.randint(1, (high - low) // 2)
    everything = range(low, high + 1)
    match style:
        case "star":
            return "*", frozenset(everything), True
        case "every":
            return f"*/{step}", frozenset(everything[::step]), True
        case "from":
            return f"{first}/{step}", frozenset(range(first, high + 1, step)), first + step <= high
        case "range":
            return f"{first}-{last}", frozenset(range(first, last + 1)), False
        case "steps":
            return f"{first}-{last}/{step}", frozenset(range(first, last + 1, step)), False
        case "wrapped" if wraps and first < last:
            return f"{last}-{first}", frozenset({*range(last, high + 1), *range(low, first + 1)}), False
        case "list":
            values = {random.randint(low, high) for _ in range(3)}
            return ",".join(map(str, sorted(values, reverse=True))), frozenset(values), False
        case _:
            return str(first), frozenset({first}), False


def _around(random: Random, value: int, *, most: int) -> Numbers:
    """A field that has this value; minutes may be left open, which makes it a pace."""
    if most == 59 and random.random() < 0.2:
        return "*", frozenset(range(60)), True
    first, last = max(value - random.randint(0, 3), 0), min(value + random.randint(0, 3), most)
    other = random.randint(0, most)
    return random.choice(
        [
            (str(value), frozenset({value}), False),
            (f"{other},{value}", frozenset({other, value}), False),
            (f"{first}-{last}", frozenset(range(first, last + 1)), False),
        ]
    )


STYLES = ("star", "star", "every", "every", "from", "range", "steps", "wrapped", "list", "value", "value", "value")


def _months(random: Random, *, wraps: bool, is_rare: bool) -> Numbers:
    if not is_rare and random.random() < 0.7:
        return "*", frozenset(range(1, 13)), True
    if random.random() < 0.5:
        month = random.randint(1, 12)
        return MONTHS[month - 1], frozenset({month}), False
    return _numbers(random, (1, 12), wraps=wraps)


def _days(random: Random, *, is_quartz: bool, is_rare: bool) -> tuple[str, str, DayTest]:
    day_text, day_test = _day(random, wraps=is_quartz, is_rare=is_rare)
    weekday_text, weekday_test = _weekday(random, is_quartz=is_quartz)
    if is_quartz:
        if random.random() < 0.5:
            return day_text, "?", day_test
        return "?", weekday_text, weekday_test
    if not is_rare and random.random() < 0.5:
        return "*", weekday_text, weekday_test
    if random.random() < 0.5:
        return day_text, "*", day_test
    if day_text.startswith("*") or weekday_text.startswith("*"):
        return day_text, weekday_text, lambda day: day_test(day) and weekday_test(day)
    return day_text, weekday_text, lambda day: day_test(day) or weekday_test(day)


def _day(random: Random, *, wraps: bool, is_rare: bool) -> tuple[str, DayTest]:
    style = random.choice(("numbers", "numbers", "last", "before_last", "last_workday", "workday"))
    number = random.randint(1, 31)
    match style:
        case "last":
            return "L", lambda day: day.day == _length(day)
        case "before_last":
            return f"L-{number - 1}", lambda day: day.day == _length(day) - number + 1
        case "last_workday":
            return "LW", lambda day: day == _nearest_workday(day, _length(day))
        case "workday":
            return f"{number}W", lambda day: number <= _length(day) and day == _nearest_workday(day, number)
        case _:
            text, values, _ = _numbers(random, (1, 31), wraps=wraps, is_rare=is_rare)
            return text, lambda day: day.day in values


def _weekday(random: Random, *, is_quartz: bool) -> tuple[str, DayTest]:
    shift = 1 if is_quartz else 0
    first, last = sorted((random.randint(0, 6), random.randint(0, 6)))
    match random.choice(("star", "number", "name", "range", "nth", "last", "list")):
        case "star":
            return "*", lambda day: True
        case "name":
            return WEEKDAYS[first], lambda day: _weekday_of(day) == first
        case "range" if is_quartz and first < last:
            return f"{last + 1}-{first + 1}", lambda day: not first < _weekday_of(day) < last
        case "range":
            return f"{first + shift}-{last + shift}", lambda day: first <= _weekday_of(day) <= last
        case "nth":
            nth = random.randint(1, 5)
            return f"{first + shift}#{nth}", lambda day: _weekday_of(day) == first and (day.day + 6) // 7 == nth
        case "last":
            return f"{first + shift}L", lambda day: _weekday_of(day) == first and day.day + 7 > _length(day)
        case "list":
            return f"{WEEKDAYS[last]},{first + shift}", lambda day: _weekday_of(day) in (first, last)
        case _:
            sunday = "1" if is_quartz else "7"
            return sunday if first == 0 else str(first + shift), lambda day: _weekday_of(day) == first


def _weekday_of(day: date) -> int:
    return day.isoweekday() % 7


def _length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def _nearest_workday(month: date, number: int) -> date:
    days = (month.replace(day=day) for day in range(1, _length(month) + 1))
    return min((day for day in days if day.isoweekday() < 6), key=lambda day: abs(day.day - number))


@dataclass(frozen=True, slots=True)
class Scene:
    """What the clock of a zone shows during a while, second by second or minute by minute."""

    zone: str
    begin: datetime
    end: datetime
    shown: dict[tuple[int, int, int], list[tuple[datetime, datetime]]]  # by time of day: the instant, the wall time
    days: AbstractSet[date]
    places: dict[datetime, list[datetime]]  # the instants at which a wall time is shown
    gaps: Sequence[tuple[datetime, Sequence[datetime]]]  # the instant a gap ends, and the wall times that were skipped

    def hot(self) -> list[datetime]:
        """The wall times that are skipped or shown twice."""
        skipped = [wall for _, walls in self.gaps for wall in walls]
        return skipped + [wall for wall, instants in self.places.items() if len(instants) > 1]


def look_at(zone: str, begin: datetime, *, length: timedelta, step: timedelta) -> Scene:
    margin = timedelta(hours=26 if zone in WHOLE_DAY_ZONES else 4)  # further than its clocks are ever moved
    clock = ZoneInfo(zone)
    shown: dict[tuple[int, int, int], list[tuple[datetime, datetime]]] = defaultdict(list)
    days: AbstractSet[date]
    places: dict[datetime, list[datetime]] = defaultdict(list)
    gaps = []
    instant, wall = begin - margin, None
    while instant < begin + length + margin:
        now = instant.astimezone(clock).replace(tzinfo=None, fold=0)
        if wall is not None and now > wall + step:
            gaps.append((instant, [wall + step * count for count in range(1, (now - wall) // step)]))
        wall = now
        places[now].append(instant)
        shown[now.hour, now.minute, now.second].append((instant, now))
        instant += step
    days = {wall.date() for wall in places}
    return Scene(zone, begin, begin + length, shown, days, places, gaps)


def fires_in(scene: Scene, sample: Sample, *, gap: DstGap, overlap: DstOverlap) -> list[datetime]:
    """Every instant from the scene's begin to its end at which the expression fires, found by looking."""
    times = product(sample.hours, sample.minutes, sample.seconds)
    days = {day for day in scene.days if sample.is_date(day)}
    shown = [pair for time in times for pair in scene.shown.get(time, ()) if pair[1].date() in days]
    fires = {instant for instant, _ in shown}
    if not sample.is_interval_like:
        unwanted = {DstOverlap.FIRST: slice(1, None), DstOverlap.SECOND: slice(0, -1), DstOverlap.BOTH: slice(0, 0)}
        fires = {instant for instant, wall in shown if instant not in scene.places[wall][unwanted[overlap]]}
        if gap is DstGap.RUN_AFTER:
            fires |= {ended for ended, walls in scene.gaps if any(sample.shows(wall) for wall in walls)}
    return sorted(instant for instant in fires if scene.begin <= instant < scene.end)


def fires_over_years(sample: Sample, zone: str, *, years: range) -> list[datetime]:
    """The fires of an expression with few of them, day by day, where gaps are skipped and the first of two is meant."""
    clock = ZoneInfo(zone)
    day, last = date(years.start, 1, 1), date(years.stop, 1, 1)
    fires = []
    while day < last:
        if sample.is_date(day):
            for hour in sorted(sample.hours):
                for minute in sorted(sample.minutes):
                    wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=clock)
                    instant = wall.astimezone(UTC)
                    if instant.astimezone(clock).replace(tzinfo=None) == wall.replace(tzinfo=None):
                        fires.append(instant)
        day += timedelta(days=1)
    return fires


def changes_of(zone: str, year: int) -> list[datetime]:
    """The hours of a year in which the offset of a zone changes."""
    clock = ZoneInfo(zone)
    day = datetime(year, 1, 1, tzinfo=UTC)
    days = [day + timedelta(days=count) for count in range(366)]
    offsets = [one.astimezone(clock).utcoffset() for one in days]
    return [days[place] for place in range(365) if offsets[place] != offsets[place + 1]]


def disagreements(random: Random, *, instants: int) -> Iterator[str | None]:
    """Cases without an end: for each, None or what the evaluator said otherwise than the oracle."""
    while True:
        with_seconds = random.random() < 0.15
        scene = _random_scene(random, with_seconds=with_seconds)
        hot = scene.hot()
        for _ in range(SAMPLES_PER_SCENE):
            sample = random_sample(random, with_seconds=with_seconds, hot=hot if random.random() < 0.7 else ())
            gap, overlap = random.choice(list(DstGap)), random.choice(list(DstOverlap))
            try:
                expression = parse_cron(sample.text, dialect=sample.dialect)
            except InvalidError as refusal:
                if "never fires" not in str(refusal):
                    yield f"{sample.dialect} {sample.text!r} was refused: {refusal}"
                continue
            assert isinstance(expression, CronExpression)
            recurrence = CronRecurrence(expression=expression, zone=scene.zone, gap=gap, overlap=overlap)
            fires = fires_in(scene, sample, gap=gap, overlap=overlap)
            for _ in range(instants):
                yield _compare(random, scene, recurrence=recurrence, fires=fires)


def _random_scene(random: Random, *, with_seconds: bool) -> Scene:
    zone, year = random.choice(ZONES), random.randint(2001, 2080)
    if with_seconds and zone in WHOLE_DAY_ZONES:
        zone = "Europe/Berlin"
    changes = changes_of(zone, year)
    if changes and random.random() < 0.8:
        begin = random.choice(changes) - timedelta(minutes=random.randint(0, 200))
    else:
        begin = datetime(year, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randint(0, 520_000))
    if with_seconds:
        begin += timedelta(hours=random.randint(0, 22))
        return look_at(zone, begin, length=timedelta(hours=3), step=timedelta(seconds=1))
    return look_at(zone, begin, length=timedelta(days=random.choice((1, 2, 3))), step=timedelta(minutes=1))


def _compare(random: Random, scene: Scene, *, recurrence: CronRecurrence, fires: Sequence[datetime]) -> str | None:
    if fires and random.random() < 0.3:  # the edges
        at = random.choice(fires) + timedelta(microseconds=random.choice((-1_000_000, -1, 0, 1)))
    else:
        at = scene.begin + random.random() * (scene.end - scene.begin)
    case = f"{recurrence.expression.text!r} in {scene.zone} at {at} ({recurrence.gap}, {recurrence.overlap})"
    following = fires[bisect_right(fires, at) :]
    expected, said = (following[0] if following else None), recurrence.next(at)
    if said != expected and not (expected is None and (said is None or said >= scene.end)):
        return f"next of {case}: {said}, but the oracle says {expected}"
    earlier = fires[: bisect_left(fires, at)]
    expected, said = (earlier[-1] if earlier else None), recurrence.previous(at)
    if said != expected and not (expected is None and (said is None or said < scene.begin)):
        return f"previous of {case}: {said}, but the oracle says {expected}"
    return None
