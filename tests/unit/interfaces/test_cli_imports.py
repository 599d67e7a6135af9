"""What is made of the schedules of other programs, and what is told of the rest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule_form import schedule_from
from rota.interfaces.cli.imports.celery_beat import read_beat
from rota.interfaces.cli.imports.command_name import name_of_command
from rota.interfaces.cli.imports.crontab import read_crontab
from rota.interfaces.cli.imports.translation import Translation, type_of
from rota.interfaces.cli.imports.xxl_job import COLUMNS, read_jobs
from rota.interfaces.cli.main import run
from rota.interfaces.operations.read import task_config
from rota.wire.config import PutConfig
from tests.support.builders import NOW

Printed = pytest.CaptureFixture[str]


def notes(found: Translation) -> list[str]:
    return [note.text for note in found.notes]


def schedules(found: Translation) -> list[dict[str, Any]]:
    for definition in found.definitions:
        schedule_from(definition["schedule"])
    return [definition["schedule"] for definition in found.definitions]


CRONTAB = r"""# m h dom mon dow command
SHELL=/bin/bash
MAILTO=ops@example.com
*/5 * * * * /opt/backup.sh --all
@daily      FOO=1 /usr/bin/report 100\% %line one%line two
CRON_TZ=Europe/Berlin
30 2 * * 1-5 /opt/backup.sh
@reboot /opt/start.sh
0 25 * * * /opt/never.sh
0 0 * * *
"""


def test_a_crontab_becomes_definitions_and_notes() -> None:
    found = read_crontab(CRONTAB, zone="Asia/Shanghai")
    kept = {"overlap": "allow", "on_missed": "skip"}
    assert [one["type"] for one in found.definitions] == ["backup.sh", "report", "backup.sh"]
    assert schedules(found) == [
        {"cron": "*/5 * * * *", "zone": "Asia/Shanghai", **kept},
        {"cron": "@daily", "zone": "Asia/Shanghai", **kept},
        {"cron": "30 2 * * 1-5", "zone": "Europe/Berlin", **kept},
    ]
    assert found.definitions[1]["payload"] == {
        "command": "FOO=1 /usr/bin/report 100%",
        "stdin": "line one\nline two\n",
        "env": {"SHELL": "/bin/bash"},
    }
    assert [note.place for note in found.notes] == [f"crontab:{number}" for number in (3, 8, 9, 10)] + ["crontab"]
    assert notes(found)[2].startswith("not translated: schedule.cron")


def names(*lines: str, prefix: str = "") -> dict[str, str]:
    """The types of the lines of a crontab, by what they run."""
    found = read_crontab("\n".join(lines), zone="UTC")
    found.name_apart(prefix)
    return {f"{one['schedule']['cron']} {one['payload']['command']}": one["type"] for one in found.definitions}


def test_the_type_of_a_line_does_not_change_with_those_around_it() -> None:
    early, late, other = "1 1 * * * /opt/backup.sh", "2 2 * * * /opt/backup.sh", "3 3 * * * /opt/other.sh"
    before = names(early, other, late)
    assert before[other] == "other.sh"
    assert len(set(before.values())) == 3
    after = names("4 4 * * * /opt/backup.sh", late, early, other, "MAILTO=x")
    assert {line: after[line] for line in before} == before
    assert names(early, prefix="web1-") == {early: "web1-backup.sh"}


def test_lines_that_are_the_same_have_types_of_their_own_and_are_told() -> None:
    found = read_crontab("1 1 * * * /opt/x\n1 1 * * * /opt/x\n", zone="UTC")
    found.name_apart()
    first, second = (one["type"] for one in found.definitions)
    assert second == f"{first}-2"
    need = "a worker needs a function of this name, or give executor.function, MODULE:NAME"
    assert notes(found)[-1] == f"its type is {second}, since 2 would be called x; {need}"


def test_the_zone_of_the_commands_of_a_crontab_is_not_that_of_its_times() -> None:
    found = read_crontab("TZ=America/New_York\n0 9 * * * /bin/x\n", zone="Europe/Berlin")
    assert [one["zone"] for one in schedules(found)] == ["Europe/Berlin"]
    assert found.definitions[0]["payload"]["env"] == {"TZ": "America/New_York"}
    assert notes(found)[0] == "TZ is set for the commands alone: cron fires by CRON_TZ, or by its own zone"


@pytest.mark.parametrize(
    ("cron", "plain"),
    [
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("50-10/10 * * * *", "50,0,10 * * * *"),
        ("0 0 * nov-feb fri-Mon,3", "0 0 * 11,12,1,2 5,6,0,1,3"),
        ("0 0 30-2 * 6-7", "0 0 30,31,1,2 * 6-7"),
    ],
)
def test_a_range_that_ends_before_it_begins_is_written_out(cron: str, plain: str) -> None:
    found = read_crontab(f"{cron} /bin/x\n", zone="UTC")
    assert [one["cron"] for one in schedules(found)] == [plain]
    assert notes(found)[0] == f"{cron} is read as {plain}, as BusyBox does; other crons refuse the line"


@pytest.mark.parametrize("cron", ["0 25-2 * * *", "0 22-2/0 * * *", "0 0 * * fri-moon", "0 0 1 1"])
def test_what_is_no_range_is_noted_as_it_is(cron: str) -> None:
    found = read_crontab(f"{cron} /bin/x\n", zone="UTC")
    assert (found.definitions, len(found.notes)) == ([], 1)


def test_a_crontab_says_that_nothing_limits_its_runs_and_what_else_is_lost() -> None:
    found = read_crontab("RANDOM_DELAY=45\n* * * * * /bin/x\n", zone="UTC")
    assert notes(found) == [
        "RANDOM_DELAY is left out: give jitter_seconds, 45 minutes",
        "cron sets no time limit; here a run ends after five minutes unless its timeout_seconds says otherwise",
    ]
    assert "env" not in found.definitions[0]["payload"]


def test_a_crontab_of_the_system_has_users() -> None:
    found = read_crontab("17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily root", zone="UTC", has_user=True)
    assert found.definitions[0]["payload"] == {"command": "cd / && run-parts /etc/cron.hourly"}
    assert notes(found)[:2] == ["ran as root: who runs it now is up to the worker", "not translated: has no command"]


def test_the_user_of_a_system_crontab_is_not_silently_taken_for_the_command() -> None:
    line = "17 * * * * root cd / && run-parts /etc/cron.hourly"
    assert notes(read_crontab(line, zone="UTC"))[0] == "root is read as the command: if it is the user, give --system"
    assert not [one for one in notes(read_crontab(line, zone="UTC", has_user=True)) if "--system" in one]


def test_an_entry_whose_name_fits_no_type_has_that_of_its_task_and_keeps_its_name() -> None:
    source = 'beat_schedule = {"每日报表": {"task": "proj.tasks.report", "schedule": 60}}'
    (one,) = read_beat(source, zone="UTC").definitions
    assert (one["type"], one["name"]) == ("proj.tasks.report", "每日报表")


BEAT = """
from celery.schedules import crontab, solar
app.conf.timezone = "Europe/London"
app.conf.beat_schedule = {
    "add-every-30": {"task": "proj.tasks.add", "schedule": 30.0, "args": (16, 16), "options": {"queue": "x"}},
    "morning": {"task": "a.send", "schedule": crontab(hour=7, minute=30, day_of_week=[1, 2]), "kwargs": {"a": 1}},
    "span": {"task": "clean", "schedule": timedelta(minutes=5)},
    "wrapped": {"task": "clean", "schedule": schedule(run_every=timedelta(0, 90))},
    "sun": {"task": "clean", "schedule": solar("sunset", 1, 2)},
    "both": {"task": "clean", "schedule": crontab(0, 0, "mon", "1")},
    "odd": {"task": "clean", "schedule": crontab(nowfun=now)},
    "made": {"task": name(), "schedule": 1},
    "bare": {"schedule": 1},
    "none": {"task": "clean", "schedule": schedule()},
    "wrong": {"task": "clean", "schedule": timedelta(moons=1)},
    "short": make(),
    "fast": {"task": "clean", "schedule": 0.01},
}
"""
UNTRANSLATABLE = 9  # of these entries


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ("'schedule': None", "None is no number of seconds"),
        ("'schedule': 'abc'", "'abc' is no number of seconds"),
        ("'schedule': True", "True is no number of seconds"),
        ("'schedule': 1e999", "schedule.every_seconds"),
        ("'schedule': 10, 'args': 5", "its args a list or a tuple"),
        ("'schedule': 10, 'kwargs': [1]", "its kwargs must be a dict"),
        ("'schedule': 10, 'kwargs': {1: 2}", "payload"),
        ("'schedule': 10, 'kwargs': {'a': {1, 2}}", "payload"),
    ],
)
def test_an_entry_of_beat_that_makes_no_sense_is_noted(facts: str, told: str) -> None:
    found = read_beat(f"beat_schedule: dict = {{'a': {{'task': 'm.f', {facts}}}}}", zone="UTC")
    assert found.definitions == []
    [note] = notes(found)
    assert note.startswith("not translated: ")
    assert told in note


def test_a_beat_schedule_may_have_a_type() -> None:
    found = read_beat("beat_schedule: dict = {'a': {'task': 'm.f', 'schedule': 10}}\nhalf: dict", zone="UTC")
    assert [one["every_seconds"] for one in schedules(found)] == [10.0]


def test_a_beat_schedule_is_read_without_running_it() -> None:
    found = read_beat(BEAT, zone="UTC")
    kept = {"overlap": "allow", "on_missed": "run_once"}
    assert schedules(found) == [
        {"every_seconds": 30.0, **kept},
        {"cron": "30 7 * * 1,2", "zone": "Europe/London", **kept},
        {"every_seconds": 300.0, **kept},
        {"every_seconds": 90.0, **kept},
    ]
    first, second, third, _ = found.definitions
    assert (first["type"], first["executor"]) == ("add-every-30", {"type": "local", "function": "proj.tasks:add"})
    assert (first["payload"], second["payload"], third["executor"]) == ({"args": [16, 16]}, {"a": 1}, {"type": "local"})
    assert {one["retry"]["max_retries"] for one in found.definitions} == {0}
    assert sum(note.startswith("not translated") for note in notes(found)) == UNTRANSLATABLE
    assert "not translated: sun: solar() has no counterpart" in notes(found), "which entry it was"
    told = [note for note in notes(found) if not note.startswith("not translated")]
    assert told == [
        "add-every-30: positional arguments [16, 16] are in the payload as `args`; give them names",
        "add-every-30: options is left out: {'queue': 'x'}",
        "span: the module of clean is not known; give executor.function, module:name",
        "wrapped: the module of clean is not known; give executor.function, module:name",
        "fast: the module of clean is not known; give executor.function, module:name",
        "Celery sets no time limit; here a run ends after five minutes unless its timeout_seconds says otherwise",
        "nothing is tried again: what the tasks say of retries and time limits is not read; give retry",
    ]


PERIODIC = """
from proj.tasks import add as plus
from proj import jobs
@app.on_after_configure.connect
def setup_periodic_tasks(sender, **kwargs):
    sender.add_periodic_task(10.0, plus.s(1, b=2), name="add every 10", expires=5)
    sender.add_periodic_task(crontab(hour="22-2", minute=0), jobs.clean.si(), kwargs={"deep": True})
    sender.add_periodic_task(30.0, sig=local.s())
    sender.add_periodic_task(30.0, make())
    sender.add_periodic_task(30.0, make().s())
    sender.add_periodic_task(30.0, plus.s(*numbers))
    sender.add_periodic_task(30.0, plus.s(**names))
    sender.add_periodic_task(30.0)
app.conf.beat_schedule = make_schedule()
"""


def test_calls_that_add_a_periodic_task_are_read() -> None:
    found = read_beat(PERIODIC, zone="UTC", place="beat")
    assert [(one["type"], one["executor"].get("function")) for one in found.definitions] == [
        ("add-every-10", "proj.tasks:add"),
        ("jobs.clean", "proj.jobs:clean"),
        ("local", None),
    ]
    assert [one["payload"] for one in found.definitions] == [{"b": 2, "args": [1]}, {"deep": True}, {}]
    assert [one.get("cron", one.get("every_seconds")) for one in schedules(found)] == [
        10.0,
        "0 22,23,0,1,2 * * *",
        30.0,
    ]
    told = [(note.place, note.text) for note in found.notes]
    assert told[:4] == [
        ("beat:14", "not translated: make_schedule() is not written out as a dict"),
        ("beat:6", "add every 10: positional arguments [1] are in the payload as `args`; give them names"),
        ("beat:6", "add every 10: expires is left out: 5"),
        ("beat:8", "local: the module of local is not known; give executor.function, module:name"),
    ]
    assert [place for place, text in told if text.startswith("not translated")] == [
        *("beat:14", "beat:9", "beat:10", "beat:11", "beat:12", "beat:13")
    ]


@pytest.mark.parametrize(("source", "told"), [("def", "is no Python"), ("x = 1", "there is no beat_schedule")])
def test_a_file_without_a_beat_schedule_is_told(source: str, told: str) -> None:
    assert any(told in note for note in notes(read_beat(source, zone="UTC")))


def job(**values: str) -> dict[str, str]:
    usual = {"id": "1", "schedule_type": "CRON", "schedule_conf": "0 0 3 * * ?", "executor_handler": "demoJobHandler"}
    return {**dict.fromkeys(COLUMNS, ""), **usual, "trigger_status": "1", "executor_timeout": "60", **values}


def as_csv(*jobs: dict[str, str]) -> str:
    return "\n".join([",".join(COLUMNS), *(",".join(f'"{one[name]}"' for name in COLUMNS) for one in jobs)])


def as_dump(*jobs: dict[str, str]) -> str:
    rows = [[f"'{one[name]}'" if one[name] else "NULL" for name in COLUMNS] for one in jobs]
    written = ",".join(f"({','.join(row)})" for row in rows)
    return f"-- dump\nINSERT INTO `xxl_job_info` VALUES {written};\nINSERT INTO `other` VALUES (1);\n"


@pytest.mark.parametrize("write", [as_csv, as_dump])
def test_jobs_of_xxl_job_are_read_from_csv_and_from_a_dump(write: Callable[..., str]) -> None:
    serial = job(executor_param="a b", misfire_strategy="FIRE_ONCE_NOW", executor_fail_retry_count="2", job_desc="Demo")
    discard = job(id="2", schedule_type="FIX_RATE", schedule_conf="30", executor_block_strategy="DISCARD_LATER")
    cover = job(id="3", executor_block_strategy="COVER_EARLY", trigger_status="0", executor_timeout="0")
    found = read_jobs(write(serial, discard, cover), zone="Asia/Shanghai", now=NOW)
    first, second, third = schedules(found)
    assert first == {
        **{"cron": "0 0 3 * * ?", "dialect": "quartz", "zone": "Asia/Shanghai", "overlap": "queue_all"},
        **{"on_missed": "run_once", "missed_grace_seconds": 5.0},
    }
    assert (second["every_seconds"], second["overlap"], third["overlap"]) == (30, "skip", "cancel_running")
    demo = found.definitions[0]
    assert (demo["max_concurrent"], demo["payload"], demo["retry"]["max_retries"]) == (1, {"param": "a b"}, 2)
    assert [one.get("paused") for one in (first, second, third)] == [None, None, True]
    assert not [one for one in found.definitions if "enabled" in one], "what was stopped could be run by hand"
    assert len(found.notes) == 1, "one has no timeout"
    found.name_apart()
    assert [one["type"] for one in found.definitions] == [f"demoJobHandler-{number}" for number in (1, 2, 3)]
    told = (
        "its type is demoJobHandler-1, since 3 would be called demoJobHandler; a worker needs a function of this name,"
    )
    assert notes(found)[1] == f"{told} or give executor.function, MODULE:NAME"


def test_a_job_of_xxl_job_without_a_schedule_is_a_type_without_one() -> None:
    found = read_jobs(as_csv(job(schedule_type="NONE", trigger_status="0", job_desc="By hand")), zone="UTC", now=NOW)
    (one,) = found.definitions
    assert (one["type"], one["name"], one["max_concurrent"]) == ("demoJobHandler", "By hand", 1)
    assert "schedule" not in one
    told = "has no schedule: run it by rota config-type trigger, or from the job that it is a child of"
    assert notes(found) == [told]
    odd = read_jobs(as_csv(job(schedule_type="FIX_RATE", schedule_conf="often")), zone="UTC", now=NOW)
    assert (odd.definitions, notes(odd)) == ([], ["not translated: schedule type FIX_RATE with 'often'"])


def test_what_xxl_job_has_beyond_that_is_noted() -> None:
    odd = job(child_jobid="7", alarm_email="a@example.com", executor_route_strategy="SHARDING_BROADCAST")
    script = job(glue_type="GLUE_SHELL")
    never = job(schedule_type="NONE")
    broken = job(schedule_conf="0 0 3 31 2 ?")
    found = read_jobs(as_csv(odd, script, never, broken), zone="UTC", now=NOW)
    assert len(found.definitions) == 2
    assert len(found.notes) == 6
    routed = job(
        executor_route_strategy="ROUND", misfire_strategy="MAYBE", executor_fail_retry_count="-1", job_group="2"
    )
    later = job(job_group="1", executor_block_strategy="LATER", executor_timeout="x")
    found = read_jobs(as_csv(routed, later), zone="UTC", now=NOW)
    assert [note for note in notes(found) if "its type is" not in note] == [
        "ROUND is left out: which worker runs it is up to scheduler.balancer",
        "misfire_strategy MAYBE is not known; it has on_missed: skip",
        "executor_fail_retry_count -1 is left out: it is no number from 0",
        "has no timeout; here it is five minutes unless timeout_seconds says otherwise",
        "executor_block_strategy LATER is not known; it has overlap: queue_all",
        "executor_timeout x is left out: it is no number from 0",
        "has 2 groups of executors: which workers run a type is up to their worker.types",
    ]
    assert notes(read_jobs("a,b\n1,2\n", zone="UTC", now=NOW))[0].startswith("has no row of xxl_job_info")


def test_a_dump_names_its_columns_and_escapes_its_text() -> None:
    text = "INSERT INTO xxl_job_info (`id`, `job_cron`, `executor_handler`, `executor_param`)\n"
    text += r"VALUES (5, '0 0 1 * * ?', 'h', 'it\'s\n' 'x'), (6, '@daily', 'h', 'a''b');"
    found = read_jobs(text, zone="UTC", now=NOW)
    assert [one["payload"]["param"] for one in found.definitions] == ["it's\nx", "a'b"]


@pytest.mark.parametrize(
    ("dump", "told"),
    [
        (
            "INSERT INTO xxl_job_info VALUES (5, 'a')",
            "a row has 2 values for 24 columns; dump it with their names (mysqldump --complete-insert)",
        ),
        ("INSERT INTO xxl_job_info VALUES (5, 'it is cut off", 'an INSERT cannot be read from "\'it is cut off" on'),
    ],
)
def test_a_dump_that_would_be_read_in_part_or_wrongly_is_not_translated(dump: str, told: str) -> None:
    found = read_jobs(dump, zone="UTC", now=NOW)
    assert (found.definitions, notes(found)) == ([], [f"not translated: {told}"])


def test_names_are_made_of_whatever_there_is() -> None:
    assert type_of("../日报 report!") == "report"
    assert type_of("!") == "job"
    assert name_of_command("A=1") == "job"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /srv/app && ./run.sh >/dev/null", "run.sh"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "cron.daily"),
        ("if [ -x /a ]; then /a/c; fi", "c"),
        ("env A=1 /opt/x.py", "x.py"),
        ("cd /srv && python3 -m proj.job --all", "proj.job"),
        ("sudo -u www-data php /var/www/artisan schedule:run", "artisan"),
        ("flock -n /tmp/lock /opt/a.sh", "a.sh"),
        ("nice -n 10 timeout 60s /opt/b | mail x", "b"),
        ("bash -lc 'cd /srv && ./run.sh'", "run.sh"),
        ("echo hi", "echo"),
        ("python3", "python3"),
    ],
)
def test_a_command_is_called_as_the_script_that_it_runs(command: str, name: str) -> None:
    assert name_of_command(command) == name


def test_what_is_imported_can_be_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crontab").write_text(CRONTAB, "utf-8")
    Path("beat.py").write_text(BEAT, "utf-8")
    Path("jobs.csv").write_text(as_csv(job()), "utf-8")
    Path("units").mkdir()
    Path("units/a.timer").write_text("OnCalendar=daily\n", "utf-8")
    for arguments in (
        ["crontab", "crontab", "--function", "jobs:run"],
        ["systemd", "units", "units/a.timer"],
        ["celery-beat", "beat.py"],
        ["xxl-job", "jobs.csv", "--zone", "Asia/Shanghai"],
    ):
        assert run(["import", *arguments]) == 0
        printed = capsys.readouterr()
        definitions = list(yaml.safe_load_all(printed.out))
        for definition in definitions:
            task_type, body = definition.pop("type"), msgspec.convert(definition, PutConfig)
            assert task_config(body, task_type=task_type, tenant_id=DEFAULT_TENANT).schedule is not None
        assert printed.err.splitlines()[-1].startswith(f"{len(definitions)} definition")


def test_what_is_written_to_a_file_overwrites_none_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crontab").write_text(CRONTAB, "utf-8")
    assert run(["import", "crontab", "crontab", "-o", "out.yaml"]) == 0
    assert len(list(yaml.safe_load_all(Path("out.yaml").read_text("utf-8")))) == 3
    capsys.readouterr()
    assert run(["import", "crontab", "crontab", "-o", "out.yaml"]) == 2
    assert "--out: out.yaml is there already; --force writes over it" in capsys.readouterr().err
    assert run(["import", "crontab", "crontab", "-o", "out.yaml", "--force", "--prefix", "web1-"]) == 0
    made = list(yaml.safe_load_all(Path("out.yaml").read_text("utf-8")))
    assert all(one["type"].startswith("web1-") for one in made)
    assert run(["import", "crontab", "crontab", "-o", "absent/out.yaml"]) == 2
    assert run(["import", "crontab", "crontab", "--prefix", "a b"]) == 2
    assert run(["import", "crontab", "crontab", "--function", "run_command"]) == 2
    assert "--function: 'run_command' must be MODULE:NAME, such as jobs:run_command" in capsys.readouterr().err
    assert run(["import", "crontab", "absent"]) == 2
    assert run(["import", "crontab", "crontab", "--zone", "Moon"]) == 2
