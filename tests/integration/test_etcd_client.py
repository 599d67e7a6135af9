"""The etcd client on a real server: what is refused, what is asked again, what ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.system import Clock
from rota.config.doctor import _examine_etcd, examine
from rota.config.load import Sources, load
from rota.domain.errors import ConfigError, CoordinatorUnavailableError
from rota.infrastructure.etcd import endpoints
from rota.infrastructure.etcd.address import parse_address
from rota.infrastructure.etcd.client import (
    COMPACT,
    STATUS,
    CompactedError,
    EtcdClient,
    EtcdOptions,
    LeaseGoneError,
    seconds,
)
from rota.infrastructure.etcd.ops import (
    delete,
    exists,
    get,
    get_as_of,
    is_absent,
    is_put,
    keep,
    only,
    put,
    put_missing,
    under,
)
from rota.infrastructure.etcd.upkeep import KEPT_FOR, Upkeep
from rota.infrastructure.system import SystemClock
from tests.support.clock import FakeClock
from tests.support.fake_etcd import FakeMember, a_fake_member
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_ETCD
from tests.support.proxy import FaultyProxy
from tests.support.require import require_server
from tests.support.servers.binaries import find_binary
from tests.support.servers.etcd import EtcdServer, list_binaries, version_of
from tests.support.servers.process import free_port, run_tool

SOON = timedelta(seconds=20)
GIB = 2**30
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
QUICK = EtcdOptions(answer_within=timedelta(milliseconds=300))


@asynccontextmanager
async def a_client(url: str, options: EtcdOptions = PATIENT_ETCD) -> AsyncIterator[EtcdClient]:
    client = EtcdClient(url, options, unavailable=CoordinatorUnavailableError)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client(etcd_server: EtcdServer) -> AsyncIterator[EtcdClient]:
    async with a_client(etcd_server.url()) as opened:
        yield opened


@pytest.fixture
def key() -> str:
    return f"/{fresh_name('client')}/key"


def by_version(binary: Path) -> str:
    return ".".join(map(str, version_of(binary))) if binary.is_absolute() else "missing"


@pytest.fixture(params=list_binaries() or [Path("etcd")], ids=by_version)
def each_server(request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    """Every version that is here."""
    require_server("etcd")
    with EtcdServer(binary=request.param) as server:
        yield server


async def test_every_version_does_what_we_need(each_server: EtcdServer, key: str) -> None:
    async with a_client(each_server.url()) as client:
        lease = await client.grant(SOON)
        assert await client.keep_alive(lease)
        many = [put_missing(f"{key}/{number}", b"x" * 100) for number in range(3_000)]
        done = await client.write([*many, put(key, lease=lease), put(f"{key}_", lease=lease)], when=[is_absent(key)])
        assert done.is_met
        assert len(done.answers) == 3_002
        await client.write([keep(f"{key}_")])
        await client.revoke(lease)
        found = (await client.read([get(key), get(f"{key}_")])).answers
        assert [len(answer.range.kvs) for answer in found] == [0, 1]
        with pytest.raises(CoordinatorUnavailableError, match="key not found"):
            await client.write([put(f"{key}_2"), keep(key)])
        assert not (await client.read([exists(f"{key}_2")])).answers[0].range.count
        async with client.watch(under(f"{key}/"), after=done.revision) as events:
            await client.write([delete(f"{key}/7")])
            assert [event.kv.key.decode() for event in await anext(events)] == [f"{key}/7"]
        assert (await client.status()).version.startswith("3.")


async def test_a_lease_that_is_over_is_told(client: EtcdClient, key: str) -> None:
    lease = await client.grant(SOON)
    await client.revoke(lease)
    await client.revoke(lease)
    assert not await client.keep_alive(lease)
    with pytest.raises(LeaseGoneError):
        await client.write([put(key, lease=lease)])


async def test_leases_are_kept_alive_when_the_server_comes_back() -> None:
    require_server("etcd")
    with EtcdServer(durable=True) as server:
        async with a_client(server.url(), PATIENT_ETCD) as client:
            lease = await client.grant(timedelta(minutes=1))
            gone = await client.grant(timedelta(minutes=1))
            await client.revoke(gone)
            assert [await client.keep_alive(one) for one in (lease, gone, lease)] == [True, False, True]
            both = await asyncio.gather(client.keep_alive(gone), client.keep_alive(lease))
            assert list(both) == [False, True], "answers are told apart"
            server.kill()
            client._options = QUICK
            with pytest.raises(CoordinatorUnavailableError):
                await client.keep_alive(lease)
            client._options = PATIENT_ETCD
            server.start()
            assert await client.keep_alive(lease)


async def test_a_watch_misses_nothing_that_happened_before_it_began(client: EtcdClient, key: str) -> None:
    begun = (await client.write([put(key, b"1")])).revision
    await client.write([put(key, b"2")])
    async with client.watch(only(key), after=begun) as events:
        assert [event.kv.value for event in await anext(events)] == [b"2"]


async def test_a_watch_whose_history_was_compacted_says_so_and_a_wait_returns(client: EtcdClient, key: str) -> None:
    begun = (await client.write([put(key, b"1")])).revision
    last = (await client.write([put(key, b"2")])).revision
    await client.compact(last)
    await client.compact(begun)  # forgotten already
    with pytest.raises(CompactedError):
        async with client.watch(only(key), after=begun - 1) as events:
            await anext(events)
    assert await client.wait_for(only(key), after=begun - 1, wait=SOON, is_wanted=lambda _: False)


async def test_a_wait_ends_without_news(client: EtcdClient, key: str) -> None:
    now = (await client.write([put(key)])).revision
    wait = timedelta(milliseconds=50)
    assert not await client.wait_for(only(key), after=now, wait=wait, is_wanted=lambda _: True)


@pytest.mark.parametrize("call", ["read", "keep_alive"])
async def test_a_wait_apart_ends_when_a_call_gets_no_answer(key: str, call: str) -> None:
    require_server("etcd")
    with EtcdServer() as server:
        async with a_client(server.url(), PATIENT_ETCD) as client:
            lease = await client.grant(SOON)
            seen = (await client.read([get(key)])).revision
            waiting = client.wait_apart(only(key), after=seen, wait=timedelta(minutes=5), is_wanted=is_put)
            for _ in range(5):  # by then it is begun
                await client.write([put(f"{key}-other")])
            server.pause()
            client._options = QUICK
            with pytest.raises(CoordinatorUnavailableError):
                await (client.read([get(key)]) if call == "read" else client.keep_alive(lease))
            await asyncio.wait({waiting}, timeout=SOON.total_seconds())
            assert waiting.done()


async def test_a_dead_member_is_passed_over(etcd_server: EtcdServer, key: str) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with a_client(f"etcd://{dead},127.0.0.1:{etcd_server.port}") as client:
        assert (await client.write([put(key)])).is_met


@pytest.fixture
def soon_missed(monkeypatch: pytest.MonkeyPatch) -> EtcdOptions:
    """Connections are not waited for, and there is much time left to say so."""
    monkeypatch.setattr(endpoints, "CONNECTED_WITHIN", 0.1)
    return EtcdOptions(answer_within=timedelta(seconds=2))


async def test_when_no_member_answers_the_caller_is_told_in_time(soon_missed: EtcdOptions) -> None:
    async with a_client(f"etcd://127.0.0.1:{free_port()}", soon_missed) as client:
        with pytest.raises(CoordinatorUnavailableError, match=r"cannot connect to 127\.0\.0\.1:"):
            await client.read([get("/x")])
        with pytest.raises(CoordinatorUnavailableError, match=r"cannot connect to 127\.0\.0\.1:"):
            await client.keep_alive(1)
        with pytest.raises(CoordinatorUnavailableError, match=r"cannot connect to 127\.0\.0\.1:"):
            await client.wait_for(only("/x"), after=0, wait=SOON, is_wanted=is_put)


async def test_who_speaks_no_tls_is_told_as_where_tls_was_wanted(
    etcd_server: EtcdServer, soon_missed: EtcdOptions
) -> None:
    async with a_client(f"etcds://127.0.0.1:{etcd_server.port}", soon_missed) as client:
        with pytest.raises(CoordinatorUnavailableError, match=r"cannot connect to 127\.0\.0\.1:[0-9]+ by TLS"):
            await client.read([get("/x")])


async def test_a_member_that_falls_silent_is_left_for_another(etcd_server: EtcdServer, key: str) -> None:
    async with FaultyProxy("127.0.0.1", etcd_server.port) as proxy:
        url = f"etcd://127.0.0.1:{proxy.port},127.0.0.1:{etcd_server.port}"
        async with a_client(url, EtcdOptions(answer_within=timedelta(seconds=4))) as client:
            await client.write([put(key)])
            proxy.blackhole()
            try:
                await client.write([put(key)])
            except CoordinatorUnavailableError:
                client._options = PATIENT_ETCD
                assert (await client.write([put(key)])).is_met
            finally:
                proxy.heal()


async def test_a_closed_client_refuses(etcd_server: EtcdServer) -> None:
    async with a_client(etcd_server.url()) as client:
        await client.read([get("/x")])
    with pytest.raises(CoordinatorUnavailableError, match="closed"):
        await client.read([get("/x")])


async def test_a_call_that_was_cancelled_spoils_no_later_one(client: EtcdClient, key: str) -> None:
    for _ in range(20):
        call = asyncio.create_task(client.write([put(f"{key}-cancelled", b"1")]))  # it may be written at any time
        await asyncio.wait([call], timeout=0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await client.write([put(key, b"2")])
    assert (await client.read([get(key)])).answers[0].range.kvs[0].value == b"2"


async def test_the_history_is_forgotten_by_one_of_those_who_look(client: EtcdClient, key: str) -> None:
    begun = (await client.write([put(key, b"1")])).revision
    await client.write([put(key, b"2")])
    one, other = (Upkeep(client, SystemClock(), key=f"{key}/compacted") for _ in range(2))
    assert [await one.look(), await other.look()] == [True, False]  # written down by one, seen by the other
    assert [await one.look(), await other.look()] == [True, False]
    assert [await other.look(), await one.look()] == [True, False], "one has not looked for a while: the other does it"
    with pytest.raises(CompactedError):
        async with client.watch(only(key), after=begun - 1) as events:
            await anext(events)


async def test_who_finds_that_another_lets_the_history_be_forgotten_does_not_ask_how_full_it_is(
    client: EtcdClient, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = list[wire.StatusResponse](), client.status

    async def ask_and_count() -> wire.StatusResponse:
        asked.append(await ask())
        return asked[-1]

    monkeypatch.setattr(client, "status", ask_and_count)
    one, other = (Upkeep(client, SystemClock(), key=f"{key}/compacted") for _ in range(2))
    assert [await one.look(), await other.look()] == [True, False]
    assert len(asked) == 1


async def test_an_etcd_that_tells_its_quota_is_measured_by_that_one() -> None:
    async with a_fake_member() as member, a_client(f"etcd://127.0.0.1:{member.port}") as client:
        member.in_use, member.quota = 3 * GIB, 8 * GIB
        upkeep = Upkeep(client, SystemClock(), key="/x")
        with capture_logs() as logs:
            await upkeep.warn()
        assert logs == []
        member.quota = 0  # an older one: the usual quota is all that is known
        with capture_logs() as logs:
            await upkeep.warn()
        assert [(line["event"], line["quota"]) for line in logs] == [("etcd.nearly_full", 2 * GIB)]


async def test_an_alarm_that_is_not_about_space_is_told_as_what_it_is() -> None:
    async with a_fake_member() as member, a_client(f"etcd://127.0.0.1:{member.port}") as client:
        member.alarms = ("etcdserver: no leader", "memberID:7 alarm:CORRUPT ")
        upkeep = Upkeep(client, SystemClock(), key="/x")
        with capture_logs() as logs:
            await upkeep.warn()
            await upkeep.warn()
        assert [(line["event"], line["alarms"]) for line in logs] == [("etcd.alarm", ["memberID:7 alarm:CORRUPT"])]
        found = {one.subject: one for one in await _examine_etcd("store", f"etcd://127.0.0.1:{member.port}")}
        assert found["etcd space"].is_sound
        assert found["etcd alarm"].text == "memberID:7 alarm:CORRUPT"
        assert "member remove" in found["etcd alarm"].fix
        member.alarms = ("memberID:7 alarm:NOSPACE ",)
        found = {one.subject: one for one in await _examine_etcd("store", f"etcd://127.0.0.1:{member.port}")}
        assert "etcdctl defrag" in found["etcd space"].fix
        assert "etcd alarm" not in found


async def test_a_history_that_a_user_must_not_compact_is_told_of_when_nobody_else_does_for_a_while() -> None:
    async with a_fake_member() as member, a_client(f"etcd://me:secret@127.0.0.1:{member.port}") as client:
        member.keeps_for_root = frozenset({STATUS, COMPACT})
        member.revision = member.compacted = 5  # by a release of Rota that was still allowed to
        upkeep = Upkeep(client, clock := FakeClock(), key="/x")
        with capture_logs() as logs:
            assert [await upkeep.look() for _ in range(3)] == [True, True, True]
        assert logs == [], "it is as young as one that is to be compacted for the first time"
        clock.advance(KEPT_FOR)
        with capture_logs() as logs:
            await Upkeep(client, clock, key="/x").look()  # who has just begun does nothing yet
            assert [await upkeep.look() for _ in range(2)] == [True, True]
        assert [line["event"] for line in logs] == ["etcd.history_kept"]


async def test_a_history_that_somebody_else_compacts_is_not_told_of() -> None:
    async with a_fake_member() as member, a_client(f"etcd://me:secret@127.0.0.1:{member.port}") as client:
        member.keeps_for_root = frozenset({COMPACT})
        upkeep = Upkeep(client, clock := FakeClock(), key="/x")
        with capture_logs() as logs:
            for _ in range(5):
                await upkeep.look()
                clock.advance(KEPT_FOR / 2)
                member.compacted = member.revision  # by etcd itself
        assert logs == []


async def test_the_doctor_says_what_a_user_must_not_ask_of_an_etcd() -> None:
    async with a_fake_member() as member:
        url = f"etcd://me:secret@127.0.0.1:{member.port}"
        member.keeps_for_root = frozenset({STATUS, COMPACT})
        found = {finding.subject: finding for finding in await _examine_etcd("store", url)}
        assert all(finding.is_sound for finding in found.values()), "how long it is kept is not known yet"
        assert found["etcd space"].text == found["etcd version"].text == "not told to this user"
        await be_refused(member, SystemClock(), prefix="rota")
        assert all(finding.is_sound for finding in await _examine_etcd("store", url))
        member.kept.clear()
        await be_refused(member, FakeClock(LONG_AGO), prefix="rota")
        found = {finding.subject: finding for finding in await _examine_etcd("store", url)}
        assert {subject for subject, finding in found.items() if not finding.is_sound} == {"etcd history"}
        assert "--auto-compaction-mode" in found["etcd history"].fix
        member.compacted = member.revision + 1  # by etcd itself
        assert all(finding.is_sound for finding in await _examine_etcd("store", url))
        member.keeps_for_root, member.compacted = frozenset(), 0
        assert all(finding.is_sound for finding in await _examine_etcd("store", url))


async def be_refused(member: FakeMember, clock: Clock, *, prefix: str) -> None:
    """As a process is that looks after it."""
    async with a_client(f"etcd://me:secret@127.0.0.1:{member.port}") as client:
        upkeep = Upkeep(client, clock, key=f"/{prefix}/compacted")
        assert [await upkeep.look() for _ in range(2)] == [True, True]


async def test_the_doctor_looks_at_the_history_of_the_keys_that_are_used() -> None:
    async with a_fake_member() as member:
        url = f"etcd://me:secret@127.0.0.1:{member.port}"
        member.keeps_for_root = frozenset({COMPACT})
        for prefix in ("rota", "shop"):
            await be_refused(member, FakeClock(LONG_AGO), prefix=prefix)
        member.own = b"/rota/"
        found = {finding.subject: finding for finding in await _examine_etcd("store", url)}
        assert found["etcd history"].text.startswith("kept"), "a store whose URL has no path"
        flags = {"store.url": "memory://", "coordinator.url": url, "coordinator.prefix": "shop"}
        member.own = b"/shop/"
        found = {finding.subject: finding for finding in (await examine(load(Sources(flags=flags)))).findings}
        assert found["etcd history"].text.startswith("kept")
        found = {finding.subject: finding for finding in await _examine_etcd("coordinator", url, prefix="other")}
        assert found["etcd history"].text.startswith("cannot be seen")
        assert found["etcd history"].fix.endswith("readwrite /other/")


@pytest.mark.skipif(find_binary("etcdctl") is None, reason="etcdctl not found")
@pytest.mark.parametrize("binary", list_binaries() or [Path("etcd")], ids=by_version)
async def test_a_user_who_may_use_the_prefix_alone_has_what_is_needed(binary: Path, key: str) -> None:
    require_server("etcd")
    with EtcdServer(binary=binary) as server:
        await administer(
            server,
            "user add root:secret",
            "role add rota",
            f"role grant-permission --prefix=true rota readwrite {key}/",
        )
        await administer(server, "user add rota:secret", "user grant-role rota rota", "auth enable")
        async with a_client(f"etcd://rota:secret@127.0.0.1:{server.port}") as client:
            upkeep = Upkeep(client, SystemClock(), key=f"{key}/compacted")
            assert [await upkeep.look() for _ in range(3)] == [True, True, True]
            with pytest.raises(CompactedError):
                await client.read([get_as_of(f"{key}/compacted", 1)])
            lease = await client.grant(SOON)
            seen = (await client.write([put(f"{key}/x", lease=lease)])).revision
            assert await client.keep_alive(lease)
            assert await client.wait_for(under(f"{key}/"), after=seen - 1, wait=SOON, is_wanted=is_put)
            await client.revoke(lease)


async def administer(server: EtcdServer, *commands: str) -> None:
    tool = [str(find_binary("etcdctl")), f"--endpoints=127.0.0.1:{server.port}"]
    for command in commands:
        await asyncio.to_thread(run_tool, [*tool, *command.split()], server.directory)


@pytest.mark.skipif(find_binary("etcdctl") is None, reason="etcdctl not found")
@pytest.mark.parametrize("binary", list_binaries() or [Path("etcd")], ids=by_version)
async def test_a_user_logs_in_again_when_rights_have_changed(binary: Path, key: str) -> None:
    require_server("etcd")
    token = f"--auth-token=jwt,priv-key={binary},sign-method=HS256,ttl=10m"  # a file that the server can read
    with EtcdServer(options=(token,), binary=binary) as server:
        await administer(server, "user add root:secret", "auth enable")
        async with a_client(f"etcd://root:secret@127.0.0.1:{server.port}") as client:
            await client.write([put(key)])
            await administer(server, "--user=root:secret user add other:secret")
            assert (await client.write([put(key)])).is_met


@pytest.mark.skipif(find_binary("etcdctl") is None, reason="etcdctl not found")
async def test_a_user_logs_in_and_again_when_its_token_has_ended(key: str) -> None:
    require_server("etcd")
    with EtcdServer(options=("--auth-token-ttl=1",)) as server:
        await administer(server, "user add root:secret", "auth enable")
        async with a_client(f"etcd://root:secret@127.0.0.1:{server.port}") as client:
            await client.write([put(key)])
            client._login._token = "spoilt"
            assert (await client.write([put(key)])).is_met
        async with a_client(f"etcd://root:wrong@127.0.0.1:{server.port}") as client:
            with pytest.raises(CoordinatorUnavailableError):
                await client.write([put(key)])
        async with a_client(f"etcd://127.0.0.1:{server.port}") as client:
            with pytest.raises(CoordinatorUnavailableError):
                await client.write([put(key)])


def test_an_address_has_members_a_prefix_and_a_login() -> None:
    found = parse_address("etcds://me:p%40ss@a:1,b,[::1]:3/team/rota?ca=/ca.pem&cert=/c.pem&key=/k.pem")
    assert found.endpoints == ("a:1", "b:2379", "[::1]:3")
    assert (found.prefix, found.user, found.password) == ("team/rota", "me", "p@ss")
    assert (found.has_tls, found.ca, found.cert, found.key) == (True, "/ca.pem", "/c.pem", "/k.pem")
    assert "p@ss" not in repr(found)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("etcd://", "has no name"),
        ("etcd://a:x", "server 1 is not host:port"),
        ("etcd://a,", "server 2 has no name"),
        ("etcd://me:hid/den@a", "has an @ behind its servers; in a password"),
        ("etcd://me:hid#den@a", "has an @ behind its servers; in a password"),
        ("etcd://me:hid?den@a", "an option is not known; in a password"),
        ("etcds://me:12?hid=den@a", "an option is not known; in a password"),
        ("etcd://me:hid[den@a", "its servers cannot be read; in a password"),
        ("etcd://me:hid]den@a", "its servers cannot be read; in a password"),
        ("etcd://a?ca=/x", "are for TLS"),
        ("etcds://a?cert=/x", "go together"),
        ("etcds://a?cert_file=/x", "is not known"),
    ],
)
def test_a_url_that_says_nonsense_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_address(url)
    assert "hid" not in str(caught.value) and "den" not in str(caught.value), "a part of a password"


async def test_a_certificate_that_is_not_there_is_told() -> None:
    async with a_client("etcds://127.0.0.1:1?ca=/nowhere.pem") as client:
        with pytest.raises(ConfigError, match="cannot be read"):
            await client.read([get("/x")])


def test_a_lease_lasts_no_shorter_than_asked_for() -> None:
    assert [seconds(timedelta(seconds=s)) for s in (0.1, 1, 1.1, 6)] == [1, 1, 2, 6]
