"""What an import would get wrong without a word: spellings that mean something else than they seem to."""

from typing import Any

import pytest

from rota.interfaces.cli.imports.celery_beat import read_beat
from rota.interfaces.cli.imports.crontab import read_crontab
from rota.interfaces.cli.imports.systemd import read_timers
from rota.interfaces.cli.imports.translation import Translation
from rota.interfaces.cli.imports.xxl_job import read_jobs
from tests.support.builders import NOW


def schedules(found: Translation) -> list[dict[str, Any]]:
    return [one["schedule"] for one in found.definitions]


def notes(found: Translation) -> list[str]:
    return [note.text for note in found.notes]


@pytest.mark.parametrize(
    ("span", "seconds"), [("5m", 300.0), ("1M", 2_629_800.0), ("2 months", 5_259_600.0), ("1y", 31_557_600.0)]
)
def test_a_month_of_systemd_is_no_minute(span: str, seconds: float) -> None:
    found = read_timers({"a.timer": f"OnUnitActiveSec={span}\n"}, zone="UTC")
    assert [one["every_seconds"] for one in schedules(found)] == [seconds]


@pytest.mark.parametrize("span", ["1H", "1Min", "2D"])
def test_a_unit_that_systemd_does_not_know_is_noted(span: str) -> None:
    found = read_timers({"a.timer": f"OnUnitActiveSec={span}\n"}, zone="UTC")
    assert schedules(found) == []
    assert "is no span of time that is known here" in notes(found)[0]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ('"a b"', "a b"),
        ("'-x \"y\"'", '-x "y"'),
        ('"it\'s"', "it's"),
        ("it's", "it's"),
        ("'", "'"),
        ('a "b"', 'a "b"'),
        ("", ""),
    ],
)
def test_the_quotes_around_a_setting_of_a_crontab_go_and_those_within_stay(given: str, value: str) -> None:
    [definition] = read_crontab(f"A = {given}\n0 5 * * * /bin/x", zone="UTC").definitions
    assert definition["payload"]["env"] == {"A": value}


@pytest.mark.parametrize(
    ("command", "stdin"), [("mail%a", "a\n"), ("mail%a%b", "a\nb\n"), ("mail%a%", "a\n"), ("mail%", "")]
)
def test_the_input_of_a_command_of_a_crontab_ends_with_its_line(command: str, stdin: str) -> None:
    [definition] = read_crontab(f"0 5 * * * {command}", zone="UTC").definitions
    assert definition["payload"]["stdin"] == stdin


@pytest.mark.parametrize(
    ("cron", "read"),
    [
        ("5/15 * * * *", "5 * * * *"),
        ("0 1-5/2,8/3 * * mon/2", "0 1-5/2,8 * * mon"),
        ("*/15 1-5/2 * * *", "*/15 1-5/2 * * *"),
    ],
)
def test_a_step_of_one_value_is_that_value_in_a_crontab_and_told(cron: str, read: str) -> None:
    found = read_crontab(f"{cron} /bin/x", zone="UTC")
    assert [one["cron"] for one in schedules(found)] == [read]
    told = [f"{cron} is read as {read}, as BusyBox does; other crons refuse the line"] if cron != read else []
    assert notes(found)[:-1] == told


def imported(*commands: str) -> tuple[str, list[str]]:
    """The command of a service, and what is told of it."""
    service = "\n".join(["[Service]", "RuntimeMaxSec=60", *(f"ExecStart={one}" for one in commands)])
    found = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": service}, zone="UTC")
    return found.definitions[0]["payload"]["command"], notes(found)


@pytest.mark.parametrize("given", [r"/bin/cat /srv/my\x20disk", r'/bin/echo "a\tb" c\sd', r"/bin/echo a\; ; /bin/b"])
def test_a_backslash_of_systemd_is_none_of_a_shell_and_told(given: str) -> None:
    told = "ExecStart has a backslash, which a shell reads otherwise: it is left as it is, write what it means"
    assert imported(given) == (given, [told])
    left_out = "what stands before a command in ExecStart is left out: @ :"
    assert imported(f"@-:{given}", "/bin/z") == (
        f"{{ {given} || true; }} && /bin/z",
        ["has 2 ExecStart: they are one command, with && between them, for a shell", left_out, told],
    )


@pytest.mark.parametrize(
    ("given", "command", "left_out"),
    [
        ("@/usr/bin/foo foo -x", "/usr/bin/foo -x", ""),
        ("-/bin/a ; /bin/b", "{ /bin/a || true; } && /bin/b", ""),
        ("/bin/a ; -/bin/b ; /bin/c", "/bin/a && { /bin/b || true; } && /bin/c", ""),
        ("/bin/a ; -/bin/b", "/bin/a && /bin/b", "-"),
        (":/bin/echo $HOME ${HOME} $$", "/bin/echo '$HOME' '${HOME}' '$$'", ""),
        ("@:/bin/echo echo $A ; /bin/echo $A", "/bin/echo '$A' && /bin/echo $A", ""),
        ("!!/bin/a ; +-/bin/b", "/bin/a && /bin/b", "- + !"),
        (r"/bin/find -exec rm {} \; ; /bin/b ';'", "/bin/find -exec rm '{}' ';' && /bin/b ';'", ""),
    ],
)
def test_what_stands_before_a_command_of_systemd_counts_or_is_told(given: str, command: str, left_out: str) -> None:
    told = [f"what stands before a command in ExecStart is left out: {left_out}"] if left_out else []
    assert imported(given) == (command, told)


PUT_INTO = """
app.conf.beat_schedule = {"a": {"task": "m.a", "schedule": 1}}
app.conf.beat_schedule["b"] = {"task": "m.b", "schedule": 2}
app.conf.beat_schedule |= {"c": {"task": "m.c", "schedule": 3}}
app.conf.beat_schedule.update({"d": {"task": "m.d", "schedule": 4}}, e={"task": "m.e", "schedule": 5})
app.conf.beat_schedule.update(made(), **more)
app.conf.broker_options["f"] = {"task": "m.f", "schedule": 6}
app.conf.broker_options.update({"g": {"task": "m.g", "schedule": 7}})
"""


def test_what_is_put_into_a_beat_schedule_later_is_read_or_told() -> None:
    found = read_beat(PUT_INTO, zone="UTC", place="beat")
    assert [(one["type"], one["schedule"]["every_seconds"]) for one in found.definitions] == [
        *(("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0), ("e", 5.0))
    ]
    assert [(note.place, note.text) for note in found.notes[:2]] == [
        ("beat:6", "not translated: made() is not written out as a dict"),
        ("beat:6", "not translated: more is not written out as a dict"),
    ]


@pytest.mark.parametrize(
    ("setting", "zone"),
    [
        ("app.conf.update(timezone='Asia/Tokyo')", "Asia/Tokyo"),
        ("app = Celery('a', timezone='Asia/Tokyo')", "Asia/Tokyo"),
        ("CELERY = dict(timezone='Asia/Tokyo')", "Asia/Tokyo"),
        ("app.add_periodic_task(5.0, m.b.s(timezone='Asia/Tokyo'))", "Europe/Paris"),
    ],
)
def test_the_zone_of_beat_is_not_that_which_a_task_is_called_with(setting: str, zone: str) -> None:
    found = read_beat(
        f"beat_schedule = {{'a': {{'task': 'm.a', 'schedule': crontab()}}}}\n{setting}", zone="Europe/Paris"
    )
    assert [one["zone"] for one in schedules(found) if "cron" in one] == [zone]


@pytest.mark.parametrize(
    ("first", "last", "zone"),
    [
        ("timezone = 'UTC'", "c(timezone='Asia/Tokyo')", "UTC"),
        ("app = Celery(timezone='UTC')", "def f():\n  if x:\n    c(timezone='Asia/Tokyo')", "UTC"),
        ("app.conf.update(timezone='UTC')", "d.update(timezone='Asia/Tokyo')", "UTC"),
        ("app = Celery(timezone='UTC')", "app.conf.timezone = 'Asia/Tokyo'", "Asia/Tokyo"),
        ("timezone = 'UTC'", "app.conf.update(timezone='Asia/Tokyo')\nc(timezone='UTC')", "Asia/Tokyo"),
        ("def f():\n  c(timezone='UTC')", "d(timezone='Asia/Tokyo')", "Asia/Tokyo"),
    ],
)
def test_of_several_zones_what_celery_is_told_last_is_taken_and_told(first: str, last: str, zone: str) -> None:
    source = f"{first}\nbeat_schedule = {{'a': {{'task': 'm.a', 'schedule': crontab()}}}}\n{last}"
    found = read_beat(source, zone="Europe/Paris")
    assert [one["zone"] for one in schedules(found)] == [zone]
    assert notes(found)[0] == f"names several zones, UTC, Asia/Tokyo: {zone} is taken for all"


@pytest.mark.parametrize(("status", "is_paused"), [("1", False), ("0", True), ("", True)])
def test_a_job_of_which_nobody_knows_whether_it_was_stopped_is_paused_and_told(status: str, is_paused: bool) -> None:
    table = f"id,schedule_type,schedule_conf,executor_handler,trigger_status\n1,FIX_RATE,30,h,{status}\n"
    found = read_jobs(table, zone="UTC", now=NOW)
    assert [one.get("paused", False) for one in schedules(found)] == [is_paused]
    told = "has no trigger_status: whether it was stopped is not known, and its schedule is paused"
    assert (told in notes(found)) == (status == "")


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        (
            "0 0 0 1 1 ? 2020",
            ["not translated: h: schedule.cron: would never fire: its last time was 2019-12-31T16:00:00Z"],
        ),
        ("0 0 0 1 1 ? 2098", []),
    ],
)
def test_a_job_that_has_had_its_last_time_is_told(conf: str, told: list[str]) -> None:
    table = "id,schedule_type,schedule_conf,executor_handler,executor_timeout,trigger_status\n"
    found = read_jobs(f"{table}1,CRON,{conf},h,5,1\n", zone="Asia/Shanghai", now=NOW)
    assert notes(found) == told
    assert len(found.definitions) == 1 - len(told)
