"""Which time zone somebody may have meant by a name that is none."""

from collections.abc import Mapping
from functools import cache
from zoneinfo import available_timezones

from rota.domain.spelling import find_near

_ALIKE = 0.8  # most names are near to some zone
_OTHERWISE_NAMED: Mapping[str, str] = {
    "beijing": "Asia/Shanghai",
    "china": "Asia/Shanghai",
    "cst": "Asia/Shanghai or America/Chicago",
    "gmt+8": "Asia/Shanghai",
    "ist": "Asia/Kolkata",
    "jst": "Asia/Tokyo",
    "pst": "America/Los_Angeles",
    "utc+8": "Asia/Shanghai",
}


def suggest_zone(given: str) -> str | None:
    """By the whole name, or by the city in it."""
    city = given.lower().rpartition("/")[2]
    if city in _OTHERWISE_NAMED:
        return _OTHERWISE_NAMED[city]
    cities = _zones_by_city()
    near_city = find_near(city, cities, cutoff=_ALIKE)
    return find_near(given, cities.values(), cutoff=_ALIKE) or (cities[near_city] if near_city else None)


@cache
def _zones_by_city() -> dict[str, str]:
    """Of several zones with a city of one name, the one that has it by its region: `Asia/Shanghai`."""
    return {zone.rpartition("/")[2]: zone for zone in sorted(available_timezones(), key=lambda zone: "/" in zone)}
