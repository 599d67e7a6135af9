"""Each kind of setting reads what people write, refuses the rest by name, and writes what it reads."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from rota.config import kinds
from rota.config.kinds import Kind, PluginChoice
from rota.config.registry import COORDINATORS, STORES
from rota.config.settings import SCHEMA
from rota.domain.errors import InvalidError

KEY = "part.key"
MIB = 1024**2
DURATION = kinds.duration(timedelta(seconds=1), timedelta(hours=1))
ACCEPTED: list[tuple[Kind[Any], Any, Any]] = [
    (kinds.whole(1, 9), 5, 5),
    (kinds.whole(-3, 9), " -3 ", -3),
    (kinds.real(0, 1), "0.5", 0.5),
    (kinds.real(0, 10), 3, 3.0),
    (DURATION, "1m30s", timedelta(seconds=90)),
    (kinds.size(0, 1024 * MIB), "256KiB", 256 * 1024),
    (kinds.size(0, 1024 * MIB), "1 MiB", MIB),
    (kinds.size(0, 1024 * MIB), "1000B", 1000),
    (kinds.choice("a", "b"), "b", "b"),
    (kinds.name(), "node-1", "node-1"),
    (kinds.url("sqlite:///x"), "redis://host", "redis://host"),
    (kinds.web_url(), "https://rota.example.com", "https://rota.example.com"),
    (kinds.web_url(), "http://[::1]:8420/base/", "http://[::1]:8420/base"),
    (kinds.host(), "::1", "::1"),
    (kinds.path(), "spool/", "spool/"),
    (kinds.optional(kinds.whole(1, 9)), None, None),
    (kinds.optional(kinds.whole(1, 9)), "null", None),
    (kinds.optional(kinds.whole(1, 9)), "4", 4),
    (kinds.words(), ["email", "*"], ("email", "*")),
    (kinds.words(), "email, report", ("email", "report")),
    (kinds.labels(), {"zone": "a"}, {"zone": "a"}),
    (kinds.labels(), "zone=a,disk=ssd", {"zone": "a", "disk": "ssd"}),
    (kinds.plugins(), "alerts,audit", (PluginChoice("alerts", {}), PluginChoice("audit", {}))),
    (kinds.plugins(), [{"name": "alerts", "channel": "ops"}], (PluginChoice("alerts", {"channel": "ops"}),)),
]
REFUSED: list[tuple[Kind[Any], Any]] = [
    (kinds.whole(1, 9), 10),
    (kinds.whole(1, 9), True),
    (kinds.whole(1, 9), 1.5),
    (kinds.whole(1, 9), "many"),
    (kinds.whole(1, 9), None),
    (kinds.real(0, 1), "nan"),
    (kinds.real(0, 1), "much"),
    (kinds.real(0, 1), True),
    (kinds.real(0, 1), 10**400),
    (DURATION, 5),
    (DURATION, "5"),
    (DURATION, "2h"),
    (DURATION, None),
    (kinds.size(1, MIB), 5),
    (kinds.size(1, MIB), "5MB"),
    (kinds.size(1, MIB), "2MiB"),
    (kinds.choice("a", "b"), "c"),
    (kinds.choice("a", "b"), ["a"]),
    (kinds.name(), "white space"),
    (kinds.url("sqlite:///x"), "localhost:6379"),
    (kinds.web_url(), "rota.example.com"),
    (kinds.web_url(), "ftp://rota.example.com"),
    (kinds.web_url(), "https://rota.example.com/?a=b"),
    (kinds.web_url(), "https://user:secret@rota.example.com"),
    (kinds.host(), "http://host"),
    (kinds.path(), "  "),
    (kinds.optional(kinds.whole(1, 9)), 0),
    (kinds.words(), []),
    (kinds.words(), {"a": 1}),
    (kinds.words(), ["a b"]),
    (kinds.labels(), ["zone"]),
    (kinds.labels(), {"zone": 1}),
    (kinds.plugins(), {"name": "alerts"}),
    (kinds.plugins(), [1]),
    (kinds.plugins(), [{"channel": "ops"}]),
    (kinds.plugins(), ["alerts", {"name": "alerts"}]),
]


@pytest.mark.parametrize(("kind", "raw", "value"), ACCEPTED)
def test_what_people_write_is_read_and_can_be_read_again(kind: Kind[Any], raw: Any, value: Any) -> None:
    read = kind.read(KEY, raw)

    assert read == value
    assert kind.read(KEY, kind.write(read)) == value


@pytest.mark.parametrize(("kind", "raw"), REFUSED)
def test_what_is_not_allowed_is_refused_by_the_name_of_the_setting(kind: Kind[Any], raw: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        kind.read(KEY, raw)

    assert caught.value.field.startswith(KEY)


def test_sizes_are_written_in_the_largest_whole_unit() -> None:
    write = kinds.size(0, 10 * MIB).write

    assert [write(value) for value in (0, 1000, 1024, 1536, 2 * MIB)] == ["0B", "1000B", "1KiB", "1536B", "2MiB"]


def test_a_bad_url_is_refused_without_showing_its_password() -> None:
    with pytest.raises(InvalidError) as caught:
        kinds.url("sqlite:///x").read(KEY, "mysql://root:hunter2@host/with space")

    assert "hunter2" not in str(caught.value)


def test_a_long_bad_value_is_shortened() -> None:
    with pytest.raises(InvalidError) as caught:
        kinds.choice("a").read(KEY, "x" * 10_000)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("raw", "value"), [(True, True), (False, False), ("true", True), (" False ", False)])
def test_truth_is_a_word_or_a_value(raw: object, value: bool) -> None:
    assert kinds.truth().read("api.x", raw) is value


@pytest.mark.parametrize("raw", ["yes", "1", 1, 0, None, "", []])
def test_what_may_be_true_or_not_is_neither(raw: object) -> None:
    with pytest.raises(InvalidError, match="is not true or false"):
        kinds.truth().read("api.x", raw)


def test_host_names_are_a_list_or_separated_by_commas() -> None:
    kind = kinds.hosts()
    assert kind.read("api.hosts", "a.example, b.example") == kind.read("api.hosts", ["a.example", "b.example"])
    assert kind.write(("a.example",)) == ["a.example"]
    for bad in (5, {"a": 1}, ["a b"], ["http://a"], [None], ["a"] * 1001):
        with pytest.raises(InvalidError):
            kind.read("api.hosts", bad)


@pytest.mark.parametrize("raw", ['["*"]', "[email, report]", "'*'"])
def test_a_list_that_is_typed_as_in_a_file_is_told_how_to_type_it(raw: str) -> None:
    with pytest.raises(InvalidError, match=r"in a flag or variable they stand without brackets and quotes"):
        kinds.words().read("worker.types", raw)


@pytest.mark.parametrize(
    ("key", "raw", "typed"),
    [
        ("http.allow", "[crm.internal, 10.0.0.0/8]", "crm.internal,10.0.0.0/8"),
        ("http.allow", "[crm.internal:8080]", "crm.internal,10.0.0.0/8"),
        ("http.allow", "[[fd00::1]:8080, crm.internal]", "crm.internal,10.0.0.0/8"),
        ("grpc.allow", '["images.internal"]', "images.internal,10.0.0.0/8"),
        ("grpc.metadata", "[tier]", "tier"),
        ("grpc.descriptor_sets", "'shop.binpb'", "shop.binpb"),
        ("api.hosts", "[rota.example.com]", "rota.example.com,localhost"),
        ("plugins", "[alerts]", "alerts,audit"),
    ],
)
def test_brackets_and_quotes_never_become_part_of_what_a_list_names(key: str, raw: str, typed: str) -> None:
    with pytest.raises(InvalidError) as caught:
        SCHEMA[key].kind.read(key, raw)
    assert caught.value.problem.endswith(f"in a flag or variable they stand without brackets and quotes: {typed}")
    SCHEMA[key].kind.read(key, typed)


@pytest.mark.parametrize("key", ["http.allow", "grpc.allow"])
def test_an_ipv6_address_keeps_its_own_brackets_in_a_flag(key: str) -> None:
    raw = "[fd00::1]:8080, [::1],crm.internal"
    assert SCHEMA[key].kind.read(key, raw) == ("[fd00::1]:8080", "[::1]", "crm.internal")


@pytest.mark.parametrize(("key", "known"), [("store.url", STORES), ("coordinator.url", COORDINATORS)])
def test_what_is_suggested_as_a_url_is_one_that_can_be_opened(key: str, known: Mapping[str, object]) -> None:
    found = SCHEMA[key]
    assert set(re.findall(r"([\w+]+)://", found.kind.allowed)) <= set(known)
    told = set(re.findall(r"([\w+]+)://", found.text))
    assert told <= set(known)
    assert told >= {name for name in known if not name.startswith("rediss")}, "TLS is told of all at once"
