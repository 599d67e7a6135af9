"""What the settings of calls over gRPC may be, and the files that they name."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from rota.config import grpc_kinds
from rota.config.load import Sources, load
from rota.config.registry import Registries, Surroundings, check_executor, list_own_servers
from rota.config.settings import SCHEMA, Settings, with_values
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.grpc.descriptors import load_descriptors
from rota.infrastructure.executors.grpc.settings import TlsTarget
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.grpc_jobs import a_shop_file


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({}, {}),
        ({"inside": {"ca": "a.pem"}}, {"inside": TlsTarget(ca="a.pem")}),
        (
            '{"inside": {"hosts": ["A.internal"], "cert": "a", "key": "b", "server_name": "c"}}',
            {"inside": TlsTarget(hosts=("a.internal",), cert="a", key="b", server_name="c")},
        ),
        (
            {"inside": {"hosts": ["a:50051"], "secret_metadata": {"x-rota-secret": "s", "authorization": "Bearer t"}}},
            {
                "inside": TlsTarget(
                    hosts=("a:50051",), secret_metadata={"x-rota-secret": "s", "authorization": "Bearer t"}
                )
            },
        ),
    ],
)
def test_targets_are_read_from_a_file_or_a_variable(raw: Any, value: Any) -> None:
    kind = grpc_kinds.tls_targets()
    assert kind.read("grpc.targets", raw) == value
    assert kind.read("grpc.targets", kind.write(value)) == value


NONSENSE: list[Any] = [
    *("x", "{", [], {"a b": {}}, {"a": 7}, {"a": {"CA": "x"}}, {"a": {"cert": "x"}}, {"a": {"ca": ""}}),
    {"a": {"cert": "x", "key": "y"}},
    {"a": {"secret_metadata": {"x-a": "hidden"}}},
    {"a": {"hosts": [], "secret_metadata": {"x-a": "hidden"}}},
    {"a": {"hosts": [7]}},
    {"a": {"hosts": ["a"], "secret_metadata": []}},
    {"a": {"hosts": ["a"], "secret_metadata": {7: "hidden"}}},
    {"a": {"hosts": ["a"], "secret_metadata": {"x-a": "hidden\n"}}},
    *({"a": {"hosts": ["a"], "secret_metadata": {name: "hidden"}}} for name in ("X-A", "grpc-a", "rota-a", "a-bin")),
]


@pytest.mark.parametrize("raw", NONSENSE)
def test_a_target_that_makes_no_sense_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidError, match=r"grpc\.targets") as caught:
        grpc_kinds.tls_targets().read("grpc.targets", raw)
    assert "hidden" not in str(caught.value)


def test_secrets_are_covered_when_settings_are_shown() -> None:
    given = {"inside": {"hosts": ["a"], "secret_metadata": {"x-key": "hidden"}}}
    loaded = load(Sources(environment={"ROTA_GRPC__TARGETS": json.dumps(given)}))
    shown = {row.key: row.value for row in loaded.describe()}
    assert shown["grpc.targets"] == {"inside": {"hosts": ["a"], "secret_metadata": "***"}}
    assert "hidden" not in repr(loaded.settings.grpc)


def test_lists_are_read_from_text_too() -> None:
    assert grpc_kinds.strings("names", "a").read("k", "a, b") == ("a", "b")
    for raw in (7, [""], [7]):
        with pytest.raises(InvalidError):
            grpc_kinds.strings("names", "a").read("k", raw)


def test_what_may_be_called_is_checked_when_the_settings_are_read() -> None:
    kind = SCHEMA["grpc.allow"].kind
    assert kind.read("grpc.allow", ["images.internal", "10.0.0.0/8"]) == ("images.internal", "10.0.0.0/8")
    with pytest.raises(InvalidError, match=r"grpc\.allow"):
        kind.read("grpc.allow", ["http://x"])


def test_the_executor_is_built_from_the_settings_and_never_calls_our_own_servers() -> None:
    settings = with_values(
        {"grpc.allow": ("127.0.0.1",), "store.url": "mysql://db/x", "coordinator.url": "redis://r:1/0"}
    )
    assert list_own_servers(settings)[:2] == [("db", 3306), ("r", 1)]
    around = Surroundings(settings, SystemClock(), SystemRandom())
    made = Registries().executors.get("grpc")(around)
    assert made.supports(TaskConfig(type="x", executor_type="grpc"))
    assert not made.supports(TaskConfig(type="x"))


def test_a_config_is_checked_by_its_executor_if_that_has_a_check() -> None:
    check_executor(TaskConfig(type="x", executor_type="unheard_of", executor_config="[]"), Registries())
    with pytest.raises(InvalidError, match=r"executor\.address"):
        check_executor(TaskConfig(type="x", executor_type="grpc"), Registries())
    with pytest.raises(InvalidError, match="must be a mapping"):
        check_executor(TaskConfig(type="x", executor_type="grpc", executor_config="[]"), Registries())


def test_a_file_with_descriptions_is_loaded_with_all_it_depends_on(tmp_path: Path) -> None:
    needed = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName("google/protobuf/timestamp.proto").CopyToProto(needed)
    path = tmp_path / "shop.binpb"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[a_shop_file(), needed]).SerializeToString())
    assert load_descriptors([str(path)]).FindServiceByName("shop.v1.Orders").full_name == "shop.v1.Orders"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[a_shop_file()]).SerializeToString())
    with pytest.raises(ConfigError, match=r"lacks what shop/v1/orders\.proto depends on"):
        load_descriptors([str(path)])


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.binpb"
    bad.write_bytes(b"\xff\xff")
    for path in (bad, tmp_path / "nothing"):
        with pytest.raises(ConfigError, match=path.name):
            load_descriptors([str(path)])


def test_a_description_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto")
    file.service.add(name="S").method.add(name="M", input_type=".Nothing", output_type=".Nothing")
    path = tmp_path / "a.binpb"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    with pytest.raises(ConfigError, match=r"a\.proto"):
        load_descriptors([str(path)])


def test_by_default_nothing_private_may_be_called() -> None:
    assert Settings().grpc.allow == ()
