"""Names become things: Rota's own, those of installed packages, and those the program registers."""

from pathlib import Path

import pytest

from rota.application.ports.metrics import NoMetrics
from rota.config.load import Loaded, SettingsError, Sources, load
from rota.config.registry import Registries, Surroundings, list_own_servers, load_known, scheme_of
from rota.config.settings import with_values
from rota.domain.balancing import BALANCERS, round_robin
from rota.domain.errors import ConfigError
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.infrastructure.telemetry.prometheus import PrometheusCollector
from tests.support.sample_plugin.install import install_package, install_sample, installed


def around(**values: str) -> Surroundings:
    settings = with_values({key.replace("__", "."): value for key, value in values.items()})
    return Surroundings(settings, SystemClock(), SystemRandom())


def a_load(folder: Path, **flags: object) -> Loaded:
    return load(Sources(folder=folder, flags={key.replace("__", "."): value for key, value in flags.items()}))


def test_a_scheme_is_what_stands_before_the_colon() -> None:
    assert scheme_of("SQLite:///x.db") == "sqlite"


def test_all_of_rotas_own_are_known() -> None:
    registries = Registries()

    stores = {"memory", "sqlite", "mysql", "mariadb", "postgresql", "redis", "rediss", "etcd", "etcds"}
    assert stores <= set(registries.stores.list_names())
    assert {"memory", "sql", "redis", "rediss", "etcd", "etcds"} <= set(registries.coordinators.list_names())
    assert set(BALANCERS) <= set(registries.balancers.list_names())
    assert registries.balancers.get("round_robin") is round_robin


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown balancer 'lest_task'; did you mean least_task\?; known:"):
        Registries().balancers.get("lest_task")
    with pytest.raises(ConfigError, match="unknown balancer 'best'; known: consistent_hash, least_task, random, "):
        Registries().balancers.get("best")


def test_a_program_may_register_its_own_and_replace_ours_but_once() -> None:
    registries = Registries()
    registries.balancers.register("mine", round_robin)
    registries.balancers.register("least_task", round_robin)

    assert registries.balancers.get("mine") is round_robin
    assert registries.balancers.get("least_task") is round_robin
    assert "mine" in registries.balancers.list_names()
    with pytest.raises(ConfigError, match="balancer 'mine' is registered twice"):
        registries.balancers.register("mine", round_robin)
    with pytest.raises(ConfigError, match="unknown"):
        Registries().balancers.get("mine")


def test_an_installed_package_adds_a_name(tmp_path: Path) -> None:
    install_sample(tmp_path)

    with installed(tmp_path):
        registries = Registries()
        assert "sample_alerts" in registries.plugins.list_names()
        plugin = registries.plugins.get("sample_alerts")()

    assert (plugin.name, plugin.version) == ("sample_alerts", "1.2.0")
    assert type(plugin).__module__ == "rota_sample_alerts", "its own module, not the one of the tests"


def test_an_installed_package_is_not_imported_before_it_is_asked_for(tmp_path: Path) -> None:
    install_package(tmp_path, "broken", points={"rota.plugins": "broken = no_such_module:Plugin"})

    with installed(tmp_path):
        assert "broken" in Registries().plugins.list_names()
        with pytest.raises(ConfigError, match=r"plugin 'broken' of the package broken cannot be loaded: No module"):
            Registries().plugins.get("broken")


def test_a_package_that_fails_while_it_is_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "rota_failing_module.py").write_text("raise RuntimeError('not on this machine')", "utf-8")
    install_package(tmp_path, "failing", points={"rota.executors": "failing = rota_failing_module:Executor"})

    with installed(tmp_path), pytest.raises(ConfigError, match="of the package failing cannot be loaded: not on this"):
        Registries().executors.get("failing")


def test_an_installed_package_does_not_take_the_place_of_one_of_ours(tmp_path: Path) -> None:
    install_package(tmp_path, "sneaky", points={"rota.balancers": "least_task = rota.domain.balancing:round_robin"})

    with installed(tmp_path):
        assert Registries().balancers.get("least_task") is BALANCERS["least_task"]


async def test_the_stores_and_coordinators_can_be_opened(tmp_path: Path) -> None:
    registries = Registries()
    surroundings = around(store__url=f"sqlite:///{tmp_path}/rota.db")
    for scheme in ("memory", "sqlite"):
        async with registries.stores.get(scheme)(surroundings) as store:
            assert store.tasks is not None
    for scheme in ("memory", "sql", "redis"):
        async with registries.coordinators.get(scheme)(around(coordinator__url="redis://localhost:1")) as coordinator:
            assert coordinator.queue is not None


def test_sql_coordination_needs_a_store_with_a_database() -> None:
    factory = Registries().coordinators.get("sql")

    with pytest.raises(ConfigError, match=r"coordinator\.url: sql:// stands for the store's own database"):
        factory(around(store__url="memory://"))


def test_collectors_are_made_by_name() -> None:
    metrics = Registries().metrics

    assert isinstance(metrics.get("none")(around()), NoMetrics)
    assert isinstance(metrics.get("prometheus")(around()), PrometheusCollector)


def test_every_name_in_the_settings_that_nobody_knows_is_reported(tmp_path: Path) -> None:
    flags = {"store.url": "floppy://a", "scheduler.balancer": "best", "plugins": "absent"}

    with pytest.raises(SettingsError) as caught:
        load_known(Sources(folder=tmp_path, flags=flags), Registries())

    starts = [problem.partition(";")[0] for problem in caught.value.problems]
    assert starts == [
        "store.url in flag --set store.url=…: unknown store 'floppy'",
        "scheduler.balancer in flag --set scheduler.balancer=…: unknown balancer 'best'",
        "plugins in flag --set plugins=…: unknown plugin 'absent'",
    ]


def test_a_name_that_nobody_knows_is_reported_beside_what_else_is_wrong(tmp_path: Path) -> None:
    flags = {"worker.capacity": "many", "scheduler.balancer": "leasttask", "store.url": "postgres"}

    with pytest.raises(SettingsError) as caught:
        load_known(Sources(folder=tmp_path, flags=flags, program="the settings given"), Registries())

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "worker.capacity in the settings given",
        "store.url in the settings given",
        "scheduler.balancer in the settings given",
    ]


@pytest.mark.parametrize("url", ["mysql://me:hid[den@db/rota", "mysql://me:hid/den@db/rota"])
def test_a_url_whose_servers_cannot_be_read_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="in a password") as caught:
        list_own_servers(around(store__url=url).settings)
    assert "hid" not in str(caught.value) and "den" not in str(caught.value)


def test_the_default_settings_name_nothing_unknown(tmp_path: Path) -> None:
    load_known(Sources(folder=tmp_path), Registries())
