"""What is made of the timers of systemd, and what is told of the rest."""

from typing import Any

import pytest

from rota.domain.schedule_form import schedule_from
from rota.interfaces.cli.imports.systemd import read_timers
from rota.interfaces.cli.imports.translation import Translation


def notes(found: Translation) -> list[str]:
    return [note.text for note in found.notes]


def schedules(found: Translation) -> list[dict[str, Any]]:
    for definition in found.definitions:
        schedule_from(definition["schedule"])
    return [definition["schedule"] for definition in found.definitions]


@pytest.mark.parametrize(
    ("calendar", "cron"),
    [
        ("daily", "0 0 * * *"),
        ("Mon..Fri *-*-* 09:30", "0 30 09 * * Mon-Fri"),
        ("Sat,Sun 10:00:15", "15 00 10 * * Sat,Sun"),
        ("Mon..Sun 10:00", "0 00 10 * * Mon-7"),
        ("Mon-Fri 09:30", "0 30 09 * * Mon-Fri"),
        ("mon-Wednesday,Fri 09:30", "0 30 09 * * Mon-Wed,Fri"),
        ("*-*-01 04:00:00", "00 00 04 01 * *"),
        ("*:0/15", "0 0/15 * * * *"),
        ("*-1,7-1 00:00:00", "00 00 00 1 1,7 *"),
        ("*-*~1 03:00", "0 00 03 L * *"),
        ("*-02~03", "0 0 0 L-2 02 *"),
        ("*~1,2", "0 0 0 L,L-1 * *"),
    ],
)
def test_a_calendar_of_systemd_becomes_cron(calendar: str, cron: str) -> None:
    found = read_timers({"a.timer": f"[Timer]\nOnCalendar={calendar} Europe/Berlin\n"}, zone="UTC")
    assert schedules(found) == [{"cron": cron, "zone": "Europe/Berlin", "on_missed": "skip"}], notes(found)


@pytest.mark.parametrize(
    ("calendar", "at"),
    [("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"), ("2026-06-01", "2026-06-01T00:00:00+02:00")],
)
def test_a_time_of_systemd_that_comes_once_is_a_time_here(calendar: str, at: str) -> None:
    found = read_timers({"a.timer": f"[Timer]\nOnCalendar={calendar} Europe/Berlin\n"}, zone="UTC")
    assert schedules(found) == [{"at": [at], "zone": "Europe/Berlin", "on_missed": "skip"}]
    assert notes(found)[0] == "fires once: take it out if its time has passed, since it is refused then"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("OnCalendar=2027-*-* 00:00", "names a year"),
        ("OnCalendar=Mon *-*-1 00:00", "at once"),
        ("OnCalendar=*-*~7/1 00:00", "no part of cron"),
        ("OnCalendar=*-*~32 00:00", "no part of cron"),
        ("OnCalendar=2027-02-30 00:00", "is no time"),
        ("OnCalendar=*-*-1.5 00:00", "no part of cron"),
        ("OnBootSec=5min", "says no time that repeats"),
        ("OnUnitActiveSec=5 moons", "no span of time"),
        ("OnCalendar=Fri..Mon 00:00", "no range of weekdays"),
        ("OnCalendar=Sun..Tue 00:00", "no range of weekdays"),
        ("OnCalendar=Mon-Wed-Fri 00:00", "no range of weekdays"),
        ("OnCalendar=Moon 00:00", "schedule.cron"),
    ],
)
def test_what_a_timer_says_beyond_cron_is_noted(line: str, told: str) -> None:
    found = read_timers({"a.timer": f"[Timer]\n{line}\n", "a.service": "ExecStart=/bin/true"}, zone="UTC")
    assert found.definitions == []
    assert any(told in note for note in notes(found)), notes(found)


def test_timers_know_their_service_their_delay_and_their_pace() -> None:
    units = {
        "sync.timer": "[Unit]\nDescription=Sync\n[Timer]\nOnBootSec=1min\nOnUnitActiveSec=1h 30min\n"
        "OnUnitInactiveSec=10\nRandomizedDelaySec=30s\nPersistent=true\nUnit=other.service\n# x=y\n",
        "other.service": "[Service]\nExecStart=/bin/false\nExecStart=\nExecStart=/bin/sync \\\n  --all\n",
        "lonely.timer": "[Timer]\nOnCalendar=\nOnCalendar=hourly\n",
    }
    found = read_timers(units, zone="UTC")
    shared = {"on_missed": "run_once", "jitter_seconds": 30.0}
    assert schedules(found)[1:] == [{"every_seconds": 5400.0, **shared}, {"after_end_seconds": 10.0, **shared}]
    assert [one["type"] for one in found.definitions] == ["lonely", "sync", "sync"]
    assert found.definitions[1]["payload"] == {"command": "/bin/sync --all"}
    assert [note.text[:26] for note in found.notes if note.place == "lonely.service"] == ["is not among the files: it"]
    assert notes(read_timers({"a.service": ""}, zone="UTC")) == ["there is no .timer file"]


def test_of_several_calendars_those_that_can_be_are_translated_and_all_are_told() -> None:
    timer = "[Timer]\nOnCalendar=daily\nOnCalendar=2027-*-* 00:00\nOnCalendar=*:0/15\nRandomizedDelaySec=moon\n"
    found = read_timers({"a.timer": timer, "a.service": "ExecStart=/bin/x\nRuntimeMaxSec=infinity\n"}, zone="UTC")
    assert [one["cron"] for one in schedules(found)] == ["0 0 * * *", "0 0/15 * * * *"]
    assert [one["payload"] for one in found.definitions] == [{"command": "/bin/x"}] * 2
    assert notes(found) == [
        "OnCalendar=2027-*-* 00:00 is not translated: '2027-*-* 00:00' names a year",
        "RandomizedDelaySec is left out: 'moon' is no span of time that is known here",
        "has 2 times: each is a type of its own, and does not wait for the others",
        "sets no time limit; here a run ends after five minutes unless its timeout_seconds says otherwise",
    ]


def test_specifiers_and_templates_of_systemd_are_told() -> None:
    units = {
        "p@.timer": "[Unit]\nDescription=100%% of %i\n[Timer]\nOnCalendar=daily\n",
        "p@.service": "[Service]\nExecStart=/bin/date +%%F %h/%i %%i %i\nRuntimeMaxSec=60\n",
    }
    found = read_timers(units, zone="UTC")
    (one,) = found.definitions
    assert (one["type"], one["description"]) == ("p", "100% of %i")
    assert one["payload"] == {"command": "/bin/date +%F %h/%i %i %i"}
    unknown = "which systemd replaces and Rota does not: write what it means"
    assert [(note.place, note.text) for note in found.notes] == [
        ("p@.timer", "is a template, and became one type: make one of it for each instance that is enabled"),
        ("p@.timer", f"Description has %i, {unknown}"),
        ("p@.service", f"ExecStart has %h, %i, {unknown}"),
    ]


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("/bin/curl -s https://a.example/?b=1&c=2", "/bin/curl -s 'https://a.example/?b=1&c=2'"),
        ("/bin/find /tmp -name *.tmp -exec rm {} \\;", "/bin/find /tmp -name '*.tmp' -exec rm '{}' ';'"),
        (
            "-/bin/sh -c 'echo $$HOME; date > /tmp/at' $ARGS",
            "/bin/sh -c 'echo $HOME; date > /tmp/at' $ARGS",
        ),
        ('/bin/tar "--file=${TO}/all $$1" --x=$Y ""', "/bin/tar --file=\"${TO}\"'/all $1' '--x=$Y' ''"),
        ("/bin/a --x ; /bin/b", "/bin/a --x && /bin/b"),
        ("/bin/echo $${HOME} it's", "/bin/echo $${HOME} it's"),
        ("/bin/echo $${HOME}", "/bin/echo '${HOME}'"),
    ],
)
def test_what_a_shell_would_take_for_its_own_is_quoted_as_systemd_runs_none(given: str, command: str) -> None:
    service = f"[Service]\nExecStart={given}\nRuntimeMaxSec=60\n"
    (one,) = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": service}, zone="UTC").definitions
    assert one["payload"] == {"command": command}


def test_a_command_that_is_not_there_is_not_taken_for_an_empty_one() -> None:
    found = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": "RuntimeMaxSec=60\n"}, zone="UTC")
    assert found.definitions[0]["payload"] == {}
    assert notes(found) == ["has no ExecStart: its command is missing in the payload"]
    assert read_timers({"a.timer": "OnCalendar=daily\n"}, zone="UTC").definitions[0]["payload"] == {}


def test_all_commands_of_a_service_are_kept_and_the_rest_of_it_is_told() -> None:
    service = (
        "[Service]\nType=oneshot\nExecStart=/bin/a\nExecStart=-/bin/b --all\nTimeoutSec=1h\nTimeoutStartSec=90\n"
        "Restart=on-failure\nUser=backup\n[Install]\nWantedBy=timers.target\n"
    )
    found = read_timers({"a.timer": "OnCalendar=daily\nWakeSystem=true\n", "a.service": service}, zone="UTC")
    [definition] = found.definitions
    assert (definition["payload"], definition["timeout_seconds"]) == ({"command": "/bin/a && /bin/b --all"}, 90.0)
    assert [(note.place, note.text) for note in found.notes] == [
        ("a.timer", "left out: WakeSystem="),
        ("a.service", "has 2 ExecStart: they are one command, with && between them, for a shell"),
        ("a.service", "what stands before a command in ExecStart is left out: -"),
        ("a.service", "Restart=on-failure is left out: nothing is tried again; give retry"),
        ("a.service", "left out: User="),
    ]


@pytest.mark.parametrize(
    ("folder", "before"),
    [("/srv/a b", "cd '/srv/a b' && "), ("~", "cd ~ && "), ("-/srv", "{ cd /srv || true; } && "), ("", "")],
)
def test_a_service_runs_in_its_folder_with_its_variables(folder: str, before: str) -> None:
    service = f'ExecStart=/bin/a\nWorkingDirectory={folder}\nEnvironment=A=1 "B=2 3"\nEnvironment=A=%%\n'
    found = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": f"{service}RuntimeMaxSec=1\n"}, zone="UTC")
    assert found.definitions[0]["payload"] == {"command": f"{before}/bin/a", "env": {"A": "%", "B": "2 3"}}
    assert notes(found) == []


def test_variables_that_cannot_be_read_are_told() -> None:
    service = "ExecStart=/bin/a\nEnvironment=A='1\nEnvironment=B=2\nRuntimeMaxSec=1\n"
    found = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": service}, zone="UTC")
    assert found.definitions[0]["payload"]["env"] == {"B": "2"}
    assert notes(found) == ["Environment=A='1 is left out: No closing quotation"]


def test_a_time_limit_that_is_not_known_is_told() -> None:
    service = "ExecStart=/bin/a\nRuntimeMaxSec=2 moons\nTimeoutStartSec=1\n"
    found = read_timers({"a.timer": "OnCalendar=daily\n", "a.service": service}, zone="UTC")
    assert "timeout_seconds" not in found.definitions[0]
    assert notes(found)[0] == "its time limit is left out: '2 moons' is no span of time that is known here"
