"""`rota doctor`, and the first token of a cluster."""

import asyncio
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from rota.config.doctor import examine_network, tell_nodes
from rota.config.load import Sources, load
from rota.config.registry import Registries, Surroundings
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.interfaces.cli.main import run
from tests.support.servers.process import free_port
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CLUSTER, CONFIG, TOKEN, WORKER, FakeApi, page

Printed = pytest.CaptureFixture[str]


def failures(printed: str) -> dict[str, str]:
    """What is not sound, with what to try."""
    lines = printed.splitlines()
    return {
        line.removeprefix("FAIL  ").partition(":")[0]: lines[place + 1].strip()
        for place, line in enumerate(lines)
        if line.startswith("FAIL")
    }


def live(*roles: str, name: str = "pod-1-77") -> None:
    """Let a process live on the store of this folder."""

    async def note() -> None:
        around = Surroundings(load(Sources()).settings, SystemClock(), SystemRandom())
        async with Registries().stores.get("sqlite")(around) as store:
            await store.nodes.seen(NodeInfo(id=NodeId(name), roles=tuple(sorted(roles))))

    asyncio.run(note())


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody else listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def _free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual ones may be taken on a machine where Rota runs."""
    monkeypatch.setenv("ROTA_API__PORT", str(free_port()))
    monkeypatch.setenv("ROTA_API__GRPC_PORT", "null")


@pytest.fixture(autouse=True)
def _nothing_scheduled(api: FakeApi) -> None:
    for path in ("/workers", "/task-configs"):
        api.on(f"GET {path}", {"items": [], "next_cursor": None})


def test_a_store_without_its_schema_is_told_and_not_made(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"schema": "try: rota db upgrade"}
    assert not Path(".rota").exists()


def test_all_is_well(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["db", "upgrade"]) == 0
    live("api", "scheduler")
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert f"ok    settings: of {Path.cwd()} (environment): store.url sqlite:///.rota/rota.db, " in printed
    assert "ok    nodes: on this store live pod-1-77 (api, scheduler)" in printed
    assert "ok    clock: the store's and this machine's agree" in printed
    assert "ok    coordinator: in memory" in printed
    assert re.search(
        r"ok    server: http://127\.0\.0\.1:\d+ \(api\.port\) answers, of this installation, nodes 1", printed
    )


def test_the_schema_of_a_later_release_is_told_and_no_fault(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["db", "upgrade"]) == 0
    with closing(sqlite3.connect(".rota/rota.db")) as connection, connection:
        connection.execute("UPDATE rota_schema_version SET version_num = '9999'")
    live("api", "scheduler")
    assert run(["doctor"]) == 0
    assert "ok    schema: is at 9999, later than this release, which has " in capsys.readouterr().out


@pytest.mark.parametrize(("words", "fix"), [([], "unset ROTA_URL"), (["--url", "http://127.0.0.1:9"], "rota doctor")])
def test_a_server_of_another_installation_is_told_apart_however_alike_it_is(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch, words: list[str], fix: str
) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["db", "upgrade"]) == 0
    live("api", name="pod-9-99")
    assert run(["doctor"]) == 0
    assert "is of another installation, on sqlite and memory with the nodes pod-1-77" in capsys.readouterr().out
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:9")
    assert run(["doctor", *words]) == 1
    assert failures(capsys.readouterr().out) == {"server": f"try: {fix}"}


def test_without_a_token_a_server_is_of_another_installation_where_this_one_serves_nothing(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /cluster", problem(401, "unauthenticated"))
    assert run(["db", "upgrade"]) == 0
    live("worker")
    assert run(["doctor"]) == 0
    assert "answers, and is of another installation: of this one no API lives" in capsys.readouterr().out
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:9")
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: unset ROTA_URL"}


def test_a_port_that_somebody_else_has_is_a_finding(api: FakeApi, capsys: Printed, taken: int) -> None:
    api.on("GET /cluster", httpx2.Response(200, text="<html>"))
    assert run(["db", "upgrade"]) == 0
    capsys.readouterr()
    assert run(["doctor", "--set", f"api.port={taken}"]) == 1
    printed = capsys.readouterr().out
    assert re.fullmatch(r"try: rota server --set api\.port=\d+", failures(printed)["ports"])
    assert f"none of this installation answers at http://127.0.0.1:{taken} (api.port)" in printed
    live("api")
    assert run(["doctor", "--set", f"api.port={taken}"]) == 0
    printed = capsys.readouterr().out
    assert f"ports: taken at 127.0.0.1: {taken} (api.port); by whom is not known: pod-1-77 serve the API" in printed
    assert "which ports they have is not known here" in printed


def test_what_cannot_be_seen_is_not_claimed(api: FakeApi, capsys: Printed, taken: int) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["doctor", "--set", "store.url=memory://", "--set", f"api.port={taken}"]) == 0
    printed = capsys.readouterr().out
    assert "answers, whose store cannot be seen from here, nodes 1" in printed
    assert "by whom cannot be seen from here" in printed


def test_the_port_of_an_address_elsewhere_is_not_looked_at(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    run(["doctor", "--set", "api.host=192.0.2.1", "--set", "api.behind_tls_proxy=true"])
    assert "ports:" not in capsys.readouterr().out


def test_many_nodes_are_counted_and_some_of_them_named() -> None:
    told = tell_nodes({f"n{number}": frozenset(["worker"]) for number in range(7)})
    assert told.endswith("n4 (worker) and 2 more")


def test_what_to_try_is_for_the_same_settings(api: FakeApi, capsys: Printed) -> None:
    Path("other.yaml").write_text("store: {url: 'sqlite:///other.db'}", "utf-8")
    run(["doctor", "--config", "other.yaml"])
    assert failures(capsys.readouterr().out)["schema"] == "try: rota db upgrade --config other.yaml"


def test_the_file_that_the_settings_are_of_is_told_by_its_path(api: FakeApi, capsys: Printed) -> None:
    Path("cluster").mkdir()
    Path("cluster/rota.yaml").write_text("store: {url: 'sqlite:///other.db'}", "utf-8")
    run(["doctor", "--config", "cluster/rota.yaml"])
    assert f"settings: of {Path.cwd()}/cluster/rota.yaml (environment, rota.yaml): " in capsys.readouterr().out


def test_a_server_that_speaks_something_else_is_told_with_where_to_look(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garble(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("illegal request line")

    api.on("GET /cluster", garble)
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:8421")
    assert run(["db", "upgrade"]) == 0
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: export ROTA_URL=http://127.0.0.1:8420"}
    api.on("GET /cluster", httpx2.Response(200, text="<html>"))
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: unset ROTA_URL"}


def test_a_server_that_nobody_named_may_be_missing(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    monkeypatch.setattr("rota.interfaces.cli.connect.CONNECT_WITHIN", timedelta(0))
    api.on("GET /cluster", refuse)
    assert run(["db", "upgrade"]) == run(["doctor"]) == 0
    assert run(["doctor", "--url", "http://127.0.0.1:1"]) == 1
    assert list(failures(capsys.readouterr().out)) == ["server"]


def test_a_token_that_is_refused_and_mixed_releases_are_findings(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:8420")
    assert run(["db", "upgrade"]) == 0
    live("api")
    api.on("GET /cluster", problem(401, "unauthenticated"))
    assert run(["doctor"]) == 0
    assert "answers, and wants a token" in capsys.readouterr().out
    monkeypatch.setenv("ROTA_TOKEN", "rota_wrong")
    assert run(["doctor"]) == 1
    make = "try: export ROTA_TOKEN=$(rota token create cli --role viewer --direct)"
    assert failures(capsys.readouterr().out) == {"server": make}
    api.on("GET /cluster", problem(403, "permission_denied"))
    assert run(["doctor"]) == 1
    capsys.readouterr()
    api.on("GET /cluster", {**CLUSTER, "version": "0.2.0"})
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: pip install --upgrade rota"}


def test_a_store_that_is_away_is_a_finding(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    url = "postgresql://rota:hunter2@127.0.0.1:1/rota"
    assert run(["doctor", "--set", f"store.url={url}", "--set", "coordinator.url=redis://127.0.0.1:1"]) == 1
    printed = capsys.readouterr().out
    assert set(failures(printed)) == {"store", "coordinator"}
    assert "hunter2" not in printed


def test_security_looks_at_files_tokens_and_the_network(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /cluster", CLUSTER)
    Path("rota.yaml").write_text("api: {host: 127.0.0.1}", "utf-8")
    Path("rota.yaml").chmod(0o644)
    assert run(["db", "upgrade"]) == 0
    Path(".rota/rota.db").chmod(0o600)
    assert run(["token", "create", "ci", "--direct", "--expires-in", "never", "-o", "name"]) == 0
    token_id = capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setenv("ROTA_URL", "http://rota.example")
    assert run(["doctor", "--security"]) == 1
    assert failures(capsys.readouterr().out) == {
        "rota.yaml": "try: chmod 600 rota.yaml",
        "tokens": f"try: rota token revoke {token_id}",
        "server": "try: unset ROTA_URL",
        "ROTA_URL": "try: ROTA_URL=https://rota.example",
    }


@pytest.mark.parametrize("kind", ["", "+sentinel", "+cluster"])
def test_a_redis_elsewhere_without_tls_is_a_finding(kind: str) -> None:
    flags = {"coordinator.url": f"redis{kind}://cache.example:6379/x", "store.url": "mysql://db.example/rota"}
    found = {item.subject: item for item in examine_network(load(Sources(flags=flags)).settings)}
    assert found["coordinator.url"].fix == f"rediss{kind}:// in coordinator.url, with TLS in Redis"
    assert found["store.url"].is_sound
    assert found["api.host"].is_sound


def test_listening_elsewhere_is_sound_with_tls_alone() -> None:
    for more, is_sound in (({}, False), ({"api.behind_tls_proxy": "true"}, True)):
        loaded = load(Sources(flags={"api.host": "10.0.0.1", **more}))
        found = {item.subject: item for item in examine_network(loaded.settings)}
        assert found["api.host"].is_sound is is_sound


def test_the_first_token_comes_from_the_store(api: FakeApi, capsys: Printed) -> None:
    assert run(["db", "upgrade"]) == 0
    capsys.readouterr()
    assert run(["token", "create", "first", "--role", "admin", "--expires-in", "1d", "--direct"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("rota_")
    assert "(first, admin) is good until 2" in printed.err
    assert printed.err.splitlines()[-1] == "to use it: export ROTA_TOKEN=…"
    assert not api.sent


def test_on_a_terminal_the_next_line_can_be_typed_as_it_is(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("POST /tokens", {"token": TOKEN, "secret": "rota_5_x"})
    monkeypatch.setattr("rota.interfaces.cli.token.is_terminal", lambda: True)
    assert run(["token", "create", "ci"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "to use it: export ROTA_TOKEN=rota_5_x"


def test_a_store_that_is_not_there_is_not_made_for_a_token(api: FakeApi, capsys: Printed) -> None:
    assert run(["token", "create", "first", "--direct"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: there is no store at .rota/rota.db yet")
    assert said[-1] == "try: rota server"
    assert not Path(".rota").exists()


def test_a_token_of_a_store_in_memory_would_be_lost(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE__URL", "memory://")
    assert run(["token", "create", "first", "--direct"]) == 2
    assert "ends with its process" in capsys.readouterr().err


def test_a_life_that_is_too_short_is_refused(api: FakeApi) -> None:
    assert run(["db", "upgrade"]) == 0
    assert run(["token", "create", "first", "--direct", "--expires-in", "0s"]) == 2


def test_scheduled_types_that_no_worker_supports_are_named_with_the_cure(api: FakeApi, capsys: Printed) -> None:
    scheduled = {**CONFIG, "next_fire_at": "2030-06-02T09:00:00Z"}
    named = {**scheduled, "type": "nightly", "executor": {"type": "local", "function": "shop.jobs:run"}}
    ended = {**CONFIG, "type": "ended"}
    api.on("GET /cluster", {**CLUSTER, "coordinator": "redis"})
    api.on("GET /task-configs", {"items": [scheduled, named, ended], "next_cursor": None})
    api.on("GET /workers", {"items": [WORKER, {**WORKER, "types": ["*"], "alive": False}], "next_cursor": None})
    assert run(["db", "upgrade"]) == 0
    live("api", "scheduler")
    assert run(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "FAIL  scheduled types: no worker lives that supports nightly; rota task explain " in printed
    assert failures(printed) == {"scheduled types": "try: rota worker --app shop.jobs"}
    api.on("GET /workers", {"items": [WORKER, {**WORKER, "types": ["@local.shop"]}], "next_cursor": None})
    assert run(["doctor"]) == 0
    assert "ok    scheduled types: a worker lives for each of them" in capsys.readouterr().out


def test_where_no_other_worker_can_join_a_type_that_nobody_runs_can_be_paused(api: FakeApi, capsys: Printed) -> None:
    scheduled = {**CONFIG, "type": "sample_tick", "next_fire_at": "2030-06-02T09:00:00Z"}
    named = {**scheduled, "executor": {"type": "local", "function": "rota.sdk.samples:hello"}}
    api.on("GET /cluster", CLUSTER)
    api.on("GET /workers", page(WORKER))
    assert run(["db", "upgrade"]) == 0
    live("api", "scheduler")
    for config, app in ((scheduled, "the file that has the function"), (named, "rota.sdk.samples")):
        api.on("GET /task-configs", page(config))
        capsys.readouterr()
        assert run(["doctor"]) == 1
        printed = capsys.readouterr().out
        alone = "all of Rota is one process here, which no other worker can join"
        assert f"supports sample_tick; {alone}: start it with {app}, or pause the schedule\n" in printed
        assert failures(printed) == {"scheduled types": "try: rota schedule pause sample_tick"}


@pytest.mark.parametrize(("host", "readers"), [("127.0.0.1", "this machine alone"), ("10.0.0.1", "without a token")])
def test_who_may_read_health_and_figures_is_told(host: str, readers: str) -> None:
    assert "monitor.host" not in {item.subject for item in examine_network(load(Sources()).settings)}
    flags = {"monitor.host": host, "monitor.port": "8422"}
    [found] = [item for item in examine_network(load(Sources(flags=flags)).settings) if item.subject == "monitor.host"]
    assert readers in found.text


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("redis", "redis://127.0.0.1:1", "redis"), ("grpc", "etcd://127.0.0.1:1", "etcd")]
)
@pytest.mark.parametrize("beside", [(), ("--set", "store.url=memory://")])
def test_an_extra_that_is_missing_is_a_finding(module: str, url: str, extra: str, beside: tuple[str, ...]) -> None:
    words = ["doctor", *(beside or ("--set", f"store.url={url}")), "--set", f"coordinator.url={url}"]
    without = f"import sys; sys.modules[{module!r}] = None; from rota.interfaces.cli.main import run; run({words!r})"
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-c", without], capture_output=True, text=True, check=True
    )
    assert f"the package {module} is not installed" in done.stdout, done
    assert f"rota[{extra}]" in done.stdout


def test_a_server_whose_store_is_away_is_not_the_wrong_server(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /cluster", problem(503, "unavailable", detail="redis: away"))
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:9")
    assert run(["db", "upgrade"]) == 0
    capsys.readouterr()
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: rota doctor, where that server runs"}
    assert run(["doctor", "--set", "store.url=postgresql://rota:x@127.0.0.1:1/rota"]) == 1
    assert "server" not in failures(capsys.readouterr().out), "one cause is told once"


def test_a_database_that_is_away_is_named_with_what_to_do(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["doctor", "--set", "store.url=postgresql://rota:hunter2@127.0.0.1:1/rota"]) == 1
    printed = capsys.readouterr().out
    assert failures(printed)["store"] == "try: start the database at 127.0.0.1:1, or correct store.url"
    assert "hunter2" not in printed
