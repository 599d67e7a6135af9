"""The settings of the HTTP executor: what they may be, and what is built from them."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from rota.config.load import Sources, load
from rota.config.registry import Registries, check_executor, http_settings, list_own_servers
from rota.config.settings import SCHEMA, with_values
from rota.domain.errors import ConfigError, InvalidError
from rota.infrastructure.executors.http.settings import SecretSettings, is_listed
from tests.support.builders import a_config

SECRET, OTHER = "whsec_" + "A" * 43 + "=", "B" * 43

ANY = "0.0.0.0"  # noqa: S104 nothing listens there


def read(key: str, raw: Any) -> Any:
    return SCHEMA[key].kind.read(key, raw)


def test_secrets_are_one_or_two_by_name_for_some_hosts() -> None:
    one = {"keys": SECRET, "hosts": ["CRM.internal", "127.0.0.1:9000", "*.svc.internal"]}
    made = read("http.secrets", {"default": one, "crm": {"keys": [SECRET, OTHER], "hosts": ["a"]}})
    assert made == {
        "default": SecretSettings(keys=(SECRET,), hosts=("crm.internal", "127.0.0.1:9000", "*.svc.internal")),
        "crm": SecretSettings(keys=(SECRET, OTHER), hosts=("a",)),
    }
    assert read("http.secrets", json.dumps({"default": one})) == {"default": made["default"]}
    assert read("http.secrets", SCHEMA["http.secrets"].kind.write(made)) == made


@pytest.mark.parametrize(
    ("entry", "host", "is_one"),
    [
        ("crm.internal", "crm.internal", True),
        ("crm.internal:80", "crm.internal", True),
        ("crm.internal:81", "crm.internal", False),
        ("crm.internal", "evil.crm.internal", False),
        ("*.internal", "crm.internal", True),
        ("*.internal:80", "crm.internal", True),
        ("*.internal:81", "crm.internal", False),
        ("*.internal", "internal", False),
        ("*.internal", "evilinternal", False),
        ("::1", "::1", True),
        ("[::1]", "::1", True),
        ("[::1]:80", "::1", True),
        ("[::1]:81", "::1", False),
    ],
)
def test_a_host_is_listed_by_itself_with_a_port_or_by_a_suffix(entry: str, host: str, is_one: bool) -> None:
    assert is_listed((entry,), host, port=80) is is_one


def test_secrets_are_in_no_representation() -> None:
    raw_targets = {"crm": {"hosts": ["a"], "secret_headers": {"X-Key": "hidden"}}}
    raw_secrets = {"crm": {"keys": [SECRET], "hosts": ["a"]}}
    values = {"http.secrets": read("http.secrets", raw_secrets), "http.targets": read("http.targets", raw_targets)}
    settings = with_values(values)

    for shown in (repr(settings), repr(http_settings(settings))):
        assert "hidden" not in shown
        assert SECRET not in shown


@pytest.mark.parametrize(
    "raw",
    [
        "crm",
        "[1]",
        5,
        {"a b": {"keys": [SECRET], "hosts": ["a"]}},
        {"crm": SECRET},
        {"crm": [SECRET]},
        {"crm": {"keys": [SECRET]}},
        {"crm": {"keys": [SECRET], "hosts": []}},
        {"crm": {"keys": [SECRET], "hosts": "a"}},
        {"crm": {"keys": [SECRET], "hosts": [7]}},
        {"crm": {"keys": [SECRET], "hosts": ["a b"]}},
        {"crm": {"keys": [SECRET], "hosts": ["10.0.0.0/8"]}},
        {"crm": {"keys": [SECRET], "hosts": ["a"], "colour": "red"}},
        {"crm": {"keys": [], "hosts": ["a"]}},
        {"crm": {"keys": [SECRET] * 3, "hosts": ["a"]}},
        {"crm": {"keys": ["short"], "hosts": ["a"]}},
        {"crm": {"keys": ["not base64 at all!"], "hosts": ["a"]}},
        {"crm": {"keys": ["QUJD"], "hosts": ["a"]}},
        {"crm": {"keys": [7], "hosts": ["a"]}},
    ],
)
def test_what_is_no_secret_is_told_without_showing_it(raw: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        read("http.secrets", raw)
    assert caught.value.field.startswith("http.secrets")
    assert "short" not in str(caught.value)


def test_a_target_has_hosts_files_and_headers(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text("")
    raw: dict[str, Any] = {
        "crm": {"hosts": ["CRM.internal"], "ca": str(pem), "secret_headers": {"Authorization": "Bearer x"}}
    }
    raw["crm"]["allow_http"] = True

    target = read("http.targets", raw)["crm"]

    assert (target.hosts, target.ca, target.secret_headers) == (
        ("crm.internal",),
        str(pem),
        {"Authorization": "Bearer x"},
    )
    written = SCHEMA["http.targets"].kind.write({"crm": target})
    assert read("http.targets", written)["crm"] == target


@pytest.mark.parametrize(
    "target",
    [
        5,
        {},
        {"hosts": []},
        {"hosts": [7]},
        {"hosts": ["a"], "colour": "red"},
        {"hosts": ["a"], "ca": "/nowhere/ca.pem"},
        {"hosts": ["a"], "cert": __file__},
        {"hosts": ["a"], "secret_headers": {"A": "x\r\ny"}},
        {"hosts": ["a"], "secret_headers": ["A"]},
        {"hosts": ["a"], "allow_http": "yes"},
    ],
)
def test_what_is_no_target_is_told(target: Any) -> None:
    with pytest.raises(InvalidError, match=r"http\.targets\.crm"):
        read("http.targets", {"crm": target})


def test_the_allow_list_is_checked_entry_by_entry() -> None:
    assert read("http.allow", "crm.internal, 10.0.0.0/8") == ("crm.internal", "10.0.0.0/8")
    for raw in (5, ["a b"], [5]):
        with pytest.raises(InvalidError, match=r"http\.allow"):
            read("http.allow", raw)


def test_secrets_are_covered_when_settings_are_shown() -> None:
    environment = {
        "ROTA_HTTP__SECRETS": json.dumps({"default": {"keys": [SECRET], "hosts": ["a"]}}),
        "ROTA_HTTP__TARGETS": json.dumps({"crm": {"hosts": ["a"], "secret_headers": {"X-Key": "hidden"}}}),
    }
    shown = {row.key: row.value for row in load(Sources(environment=environment)).describe()}

    assert shown["http.secrets"] == "***"
    assert shown["http.targets"] == {"crm": {"hosts": ["a"], "secret_headers": "***"}}


def test_types_may_stand_for_an_executor() -> None:
    assert read("worker.types", "email,@http") == ("email", "@http")
    with pytest.raises(InvalidError, match=r"worker\.types"):
        read("worker.types", ["@"])


def test_the_executor_is_built_from_plain_values() -> None:
    made = http_settings(with_values({"http.allow": ("10.0.0.0/8",)}))

    assert len(made.allow) == 1


@pytest.mark.parametrize(
    ("store", "coordinator", "servers"),
    [
        ("sqlite:///a.db", "memory://", []),
        ("mysql://u:p@db.internal/rota", "redis://cache:6380/0", [("db.internal", 3306), ("cache", 6380)]),
        ("postgresql://db:5433/rota", "sql://", [("db", 5433)]),
        ("mariadb://db/rota", "rediss://cache", [("db", 3306), ("cache", 6379)]),
        ("postgresql+asyncpg://u:p@db/rota", "memory://", [("db", 5432)]),
        ("memory://", "redis+sentinel://u:p@one,two:9/shop?sentinel_password=p", [("one", 26379), ("two", 9)]),
        ("memory://", "rediss+cluster://u:p@one,two:9", [("one", 6379), ("two", 9)]),
        ("postgresql://u:p@one:5433,two,[::1]:5434/rota", "memory://", [("one", 5433), ("two", 5432), ("::1", 5434)]),
    ],
)
def test_the_store_and_the_coordinator_are_no_targets(
    store: str, coordinator: str, servers: list[tuple[str, int]]
) -> None:
    settings = with_values({"store.url": store, "coordinator.url": coordinator, "api.port": 0, "api.grpc_port": None})
    assert list_own_servers(settings) == servers


def test_the_api_is_no_target() -> None:
    settings = with_values({"store.url": "memory://", "api.host": "10.0.0.1", "api.port": 80, "api.grpc_port": 81})
    assert list_own_servers(settings) == [("10.0.0.1", 80), ("10.0.0.1", 81)]
    everywhere = with_values({"store.url": "memory://", "api.host": ANY, "api.port": 80, "api.grpc_port": None})
    assert list_own_servers(everywhere) == [(ANY, 80), (socket.gethostname(), 80)]


def test_the_port_for_health_and_figures_is_no_target() -> None:
    settings = with_values({"store.url": "memory://", "api.port": 0, "api.grpc_port": None, "monitor.port": 8422})
    assert list_own_servers(settings) == [("127.0.0.1", 8422)]


def test_a_server_that_is_none_is_told_without_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        list_own_servers(with_values({"store.url": "postgresql://u:hidden@db:many/rota"}))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(("named", "near"), [("htttp", "http"), ("grcp", "grpc"), ("Local", "local")])
def test_an_executor_that_is_known_but_for_a_slip_is_refused(named: str, near: str) -> None:
    with pytest.raises(InvalidError, match=rf"executor\.type: '{named}' is not known; did you mean {near}\?"):
        check_executor(a_config(executor_type=named), Registries())


@pytest.mark.parametrize("named", ["http2", "grpc_web", "sql", "spark"])
def test_an_executor_that_a_worker_may_bring_is_accepted(named: str) -> None:
    check_executor(a_config(executor_type=named), Registries())


def test_a_config_is_checked_by_its_executor() -> None:
    registries = Registries()
    check_executor(a_config(executor_type="http", executor_config='{"url":"https://example.com/"}'), registries)
    check_executor(a_config(executor_type="unheard_of", executor_config='{"anything":1}'), registries)
    with pytest.raises(InvalidError, match=r"executor\.url"):
        check_executor(a_config(executor_type="http"), registries)
    with pytest.raises(InvalidError, match="executor"):
        check_executor(a_config(executor_type="http", executor_config="[]"), registries)


@pytest.mark.parametrize("said", ["{}", '{"function": null}', '{"function": "shop.jobs:Orders.send"}'])
def test_a_function_is_written_with_its_module(said: str) -> None:
    check_executor(a_config(executor_config=said), Registries())


@pytest.mark.parametrize("function", ['"shop.jobs.send"', '""', '"shop:"', '"a:b:c"', '"shop jobs:send"', "7", "[]"])
def test_a_function_that_no_worker_could_find_is_refused(function: str) -> None:
    with pytest.raises(InvalidError, match=r"executor\.function: .* must be written module:function"):
        check_executor(a_config(executor_config=f'{{"function": {function}}}'), Registries())
