"""Four sources, one answer: the strongest wins, everything wrong is said at once, and nothing secret is shown."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.config.alone import alone
from rota.config.load import Loaded, SettingsError, Sources, load
from rota.config.settings import SCHEMA, Settings, values_of, with_values
from rota.domain.errors import ConfigError


def a_file(folder: Path, text: str, *, name: str = "rota.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def load_from(
    folder: Path,
    text: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    a_file(folder, text)
    return load(Sources(folder=folder, environment=environment or {}, flags=flags or {}))


def problems_of(
    folder: Path,
    text: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_from(folder, text, environment=environment, flags=flags)
    return caught.value.problems


def test_without_any_source_every_setting_has_its_default(tmp_path: Path) -> None:
    loaded = load(Sources(folder=tmp_path))

    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.settings.worker.lease == timedelta(seconds=12)


def test_each_source_is_stronger_than_the_one_before(tmp_path: Path) -> None:
    text = "worker:\n  capacity: 1\n  weight: 1\n  processes: 1\n"
    environment = {"ROTA_WORKER__WEIGHT": "2", "ROTA_WORKER__PROCESSES": "2"}

    loaded = load_from(tmp_path, text, environment=environment, flags={"worker.processes": 3, "worker.name": None})

    worker = loaded.settings.worker
    assert (worker.capacity, worker.weight, worker.processes) == (1, 2, 3)
    assert loaded.origins["worker.capacity"] == "rota.yaml:2"
    assert loaded.origins["worker.weight"] == "environment ROTA_WORKER__WEIGHT"
    assert loaded.origins["worker.processes"] == "flag --set worker.processes=…"
    assert loaded.origins["worker.name"] == "default"


def test_a_value_set_to_its_default_is_set(tmp_path: Path) -> None:
    loaded = load_from(tmp_path, "worker: {capacity: 10}")

    assert loaded.is_set("worker.capacity")
    assert not loaded.is_set("worker.weight")


def test_a_section_without_values_is_empty(tmp_path: Path) -> None:
    assert load_from(tmp_path, "worker:\n  # capacity: 5\n").settings == Settings()


def test_a_file_can_be_named(tmp_path: Path) -> None:
    path = a_file(tmp_path, "log: {level: debug}", name="other.yaml")

    loaded = load(Sources(file=path, folder=tmp_path))

    assert loaded.settings.log.level == "debug"
    assert loaded.origins["log.level"] == "other.yaml:1"


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml cannot be read: No such file"):
        load(Sources(file=tmp_path / "none.yaml"))


def test_an_unknown_key_fails_with_the_nearest_known_one(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "worker:\n  capcity: 5\n") == (
        "unknown setting worker.capcity in rota.yaml:2; did you mean worker.capacity?",
    )
    assert problems_of(tmp_path, "wroker: {capacity: 5}") == (
        "unknown setting wroker in rota.yaml:1; did you mean worker?",
    )
    assert problems_of(tmp_path, environment={"ROTA_WORKER__CAPCITY": "5"}) == (
        "unknown setting ROTA_WORKER__CAPCITY in the environment; did you mean ROTA_WORKER__CAPACITY?",
    )
    assert problems_of(tmp_path, flags={"zzz": 5}) == (
        "unknown setting zzz in the flags; rota settings show lists them all",
    )


def test_a_variable_with_one_underscore_for_two_is_not_passed_over(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, environment={"ROTA_STORE_URL": "postgresql://db/rota"})

    assert problems == (
        "ROTA_STORE_URL in the environment sets nothing; two underscores follow the section: ROTA_STORE__URL",
    )


def test_a_variable_that_kubernetes_made_for_a_service_is_no_mistake(tmp_path: Path) -> None:
    environment = {"ROTA_API_PORT": "tcp://10.0.0.7:8420", "ROTA_API_SERVICE_HOST": "10.0.0.7"}

    assert load_from(tmp_path, environment=environment).settings == Settings()


def test_variables_of_the_client_are_not_settings(tmp_path: Path) -> None:
    environment = {"ROTA_URL": "http://host", "ROTA_TOKEN": "t", "PATH": "/bin"}

    assert load_from(tmp_path, environment=environment).settings == Settings()


def test_all_problems_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        "worker: {capacity: 0, lease: 5}\nscheduler: [1]\n",
        environment={"ROTA_LOG__LEVEL": "loud"},
        flags={"api.port": 70_000},
    )

    assert len(problems) == 5
    assert any(problem.startswith("worker.capacity in rota.yaml:1: must be a whole number") for problem in problems)
    assert any("worker.lease" in problem and "such as 100ms" in problem for problem in problems)
    assert "scheduler in rota.yaml:2 must be a mapping of names to values" in problems
    assert "log.level in environment ROTA_LOG__LEVEL: 'loud' is not one of debug, info, warning, error" in problems


def test_the_error_is_one_config_error_that_ends_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"try: rota settings check$"):
        load_from(tmp_path, "worker: {capacity: 0}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scheduler: {renew_interval: 5s}", "scheduler.renew_interval in rota.yaml:1: must be at most half"),
        ("worker: {lease: 5s}", "worker.heartbeat_interval in default: must be at most a third of worker.lease"),
        ("worker: {stop_grace: 3001ms}", "worker.stop_grace in rota.yaml:1: must be at most a quarter of worker.lease"),
        ("api: {port: 8421}", "api.grpc_port in default: must differ"),
    ],
)
def test_values_that_make_no_sense_together_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problems_of(tmp_path, text)[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("worker: {capacity: 1\n", "rota.yaml:2 is not YAML"),
        ("worker: !!python/object/apply:os.getcwd []", "must be a mapping"),
        ("worker: {name: !!python/object/apply:os.getcwd []}", "could not determine a constructor"),
        ("a: &a [x]\nworker: {types: *a}", "rota.yaml:2 is not YAML: aliases are not allowed"),
        ("worker: {name: 2026-99-99}", "is not YAML: month must be in 1..12"),
        ("log: {level: \x07}", "is not YAML"),
        ("[" * 1000, "is nested too deeply"),
        ("- worker", "everything in rota.yaml:1 must be a mapping"),
        ("worker: {weight: 1}\nworker: {capacity: 2}", "worker stands twice in rota.yaml, at lines 1 and 2"),
        ("worker: {weight: 1, weight: 2}", "worker.weight stands twice"),
    ],
)
def test_a_file_that_is_not_plain_yaml_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in "\n".join(problems_of(tmp_path, text))


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    assert "larger than 1048576 bytes" in problems_of(tmp_path, "#" * 1_048_577)[0]


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_bytes(b"\xff\xfe\xff")

    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load(Sources(folder=tmp_path))


def test_passwords_are_covered_when_settings_are_described(tmp_path: Path) -> None:
    text = "plugins: [{name: alerts, webhook_token: hunter3, url: 'https://u:hunter4@h/'}]"
    loaded = load_from(tmp_path, text, environment={"ROTA_STORE__URL": "mysql://root:hunter2@host/rota"})

    described = {row.key: row.value for row in loaded.describe()}

    assert described["store.url"] == "mysql://root:***@host/rota"
    assert described["plugins"] == [{"name": "alerts", "webhook_token": "***", "url": "https://u:***@h/"}]
    assert loaded.settings.store.url == "mysql://root:hunter2@host/rota"


@pytest.mark.parametrize("url", ["etcd://me:hid[den@a", "mysql://me:hid]den@a/rota", "redis://:x[hid]den@a"])
@pytest.mark.parametrize("key", ["store.url", "coordinator.url"])
def test_a_url_with_a_bracket_in_its_password_is_told_with_how_to_spell_it(tmp_path: Path, key: str, url: str) -> None:
    [problem] = problems_of(tmp_path, flags={key: url})

    assert problem.startswith(f"{key} in flag --set {key}=…: its servers cannot be read; in a password, / ?")
    assert "hid" not in problem and "den" not in problem


def test_a_file_may_be_called_like_another_source(tmp_path: Path) -> None:
    for name in ("default.yaml", "environment a.yaml", "flag.yaml"):
        (tmp_path / name).write_text("worker: {capacity: 10}", "utf-8")
        loaded = load(Sources(file=tmp_path / name))
        assert loaded.is_set("worker.capacity")
        assert {row.key for row in loaded.describe() if row.source == "file"} == {"worker.capacity"}
    flagged = load(Sources(flags={"worker.capacity": 10}, folder=tmp_path))
    assert {row.key for row in flagged.describe() if row.source == "flag"} == {"worker.capacity"}


def test_the_description_is_in_the_form_that_can_be_loaded(tmp_path: Path) -> None:
    described = {row.key: row.value for row in load(Sources(folder=tmp_path)).describe()}

    assert list(described) == list(SCHEMA)
    assert load(Sources(folder=tmp_path, flags=described)).settings == Settings()


def test_values_by_key_make_the_same_settings() -> None:
    settings = with_values({"worker.capacity": 7, "worker.labels": {"zone": "a"}})

    assert settings.worker.capacity == 7
    assert with_values(values_of(settings)) == settings


@pytest.mark.parametrize("url", ["mysql://db/rota", "mariadb://db/rota", "postgresql://db/rota"])
def test_a_store_on_a_server_is_coordinated_through_it_unless_said_otherwise(url: str, tmp_path: Path) -> None:
    alone = load(Sources(flags={"store.url": url}, folder=tmp_path))
    assert alone.settings.coordinator.url == "sql://"
    assert alone.origins["coordinator.url"] == "default for such a store"
    chosen = load(Sources(flags={"store.url": url, "coordinator.url": "redis://cache"}, folder=tmp_path))
    assert chosen.settings.coordinator.url == "redis://cache"


@pytest.mark.parametrize("url", ["redis://cache/1", "rediss://cache"])
def test_a_store_in_redis_is_coordinated_by_it_and_keeps_tasks_for_a_week(url: str, tmp_path: Path) -> None:
    alone = load(Sources(flags={"store.url": url}, folder=tmp_path))
    assert alone.settings.coordinator.url == url
    assert alone.settings.task.retention == timedelta(days=7)
    assert alone.origins["task.retention"] == "default for such a store"
    chosen = load(Sources(flags={"store.url": url, "task.retention": "1d"}, folder=tmp_path))
    assert chosen.settings.task.retention == timedelta(days=1)


def test_an_embedded_store_is_coordinated_in_memory(tmp_path: Path) -> None:
    assert load(Sources(folder=tmp_path)).settings.coordinator.url == "memory://"


@pytest.mark.parametrize("url", ["etcd://a:2379,b:2379/shop", "etcds://user:secret@a/shop/?ca=FILE"])
def test_a_store_in_etcd_is_coordinated_by_it_under_the_same_prefix(url: str, tmp_path: Path) -> None:
    alone = load(Sources(flags={"store.url": url}, folder=tmp_path))
    assert alone.settings.coordinator.url == url
    assert alone.settings.coordinator.prefix == "shop"
    assert alone.origins["coordinator.prefix"] == "default for such a store"
    chosen = load(Sources(flags={"store.url": url, "coordinator.prefix": "other"}, folder=tmp_path))
    assert chosen.settings.coordinator.prefix == "other"


def test_the_path_of_an_etcd_that_coordinates_is_its_prefix_with_any_store(tmp_path: Path) -> None:
    flags = {"store.url": "mysql://db/rota", "coordinator.url": "etcd://a/shop"}
    assert load(Sources(flags=flags, folder=tmp_path)).settings.coordinator.prefix == "shop"
    flags["coordinator.url"] = "etcd://a"
    assert load(Sources(flags=flags, folder=tmp_path)).settings.coordinator.prefix == "rota"


@pytest.mark.parametrize("url", ["etcd://user:secret@a/shop", "redis://:secret@cache"])
def test_what_is_said_against_a_coordinator_in_memory_has_no_password(url: str, tmp_path: Path) -> None:
    settings = load(Sources(flags={"store.url": url, "coordinator.url": "memory://"}, folder=tmp_path)).settings
    with pytest.raises(ConfigError, match="for one process") as refused, alone(settings):
        pass
    assert "secret" not in str(refused.value)
