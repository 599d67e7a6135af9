"""Where executors may connect to: the table of addresses, the allow-list, and names that change their answers."""

import asyncio
import socket
import threading
from collections.abc import Iterable
from ipaddress import ip_address

import pytest

from rota.domain.errors import InvalidError
from rota.infrastructure.executors.targets import (
    Lookup,
    TargetGuard,
    TargetRefusedError,
    is_public,
    parse_allow,
    unwrap,
)
from tests.support.patience import PATIENCE_S

PORT = 443
ANY = "0.0.0.0"  # noqa: S104 nothing listens there

PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    ANY,
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.0.1",
    "192.168.255.255",
    "169.254.169.254",
    "169.254.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "168.63.129.16",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "febf::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2001:db8::1",
    "100::1",
    "3fff::1",
    "5f00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "::ffff:0:10.0.0.1",
    "::127.0.0.1",
    "::10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::10.0.0.1",
    "2002:7f00:1::",
    "2002:0a00:0001::1",
    "2002:a9fe:a9fe::1",
    "2002:c0a8:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:0:0:0:0:0:f5ff:fffe",
    "2001:0:0:0:0:0:5601:5601",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "192.169.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "198.17.255.255",
    "198.20.0.0",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:0808:0808::1",
]


def answering(*answers: Iterable[str]) -> Lookup:
    """A resolver that gives these answers one after the other, the last one for ever."""
    left = list(answers)

    async def look_up(host: str, port: int) -> list[str]:
        return list(left.pop(0) if len(left) > 1 else left[0])

    return look_up


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_of_some_network_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_global_address_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::ffff:0:10.1.2.3", "10.1.2.3"),
        ("::10.1.2.3", "10.1.2.3"),
        ("64:ff9b::10.1.2.3", "10.1.2.3"),
        ("2002:a01:203::1", "10.1.2.3"),
        ("2001:0:4136:e378:8000:63bf:f5fe:fdfc", "10.1.2.3"),
        ("::1", "::1"),
        ("::", "::"),
        ("2606:4700::1", "2606:4700::1"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
def test_the_address_inside_an_address_is_found(text: str, inner: str) -> None:
    assert unwrap(ip_address(text)) == ip_address(inner)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "::1", "[::ffff:10.0.0.1]", "169.254.169.254"])
async def test_an_address_instead_of_a_name_is_judged(host: str) -> None:
    with pytest.raises(TargetRefusedError):
        await TargetGuard().resolve(host, PORT)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost.",
        "LOCALHOST",
        "0x7f000001",
        "0x7f.1",
    ],
)
async def test_other_spellings_of_loopback_are_judged_by_what_the_resolver_makes_of_them(host: str) -> None:
    with pytest.raises(TargetRefusedError):
        await TargetGuard().resolve(host, PORT)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "017700000001",
        "127.1",
        "0177.0.0.1",
        "127.0.1",
        "0",
        "00.0.0.0",
        "127.000.000.001",
        "1.2.3.4.5",
        "::g",
    ],
)
async def test_numbers_that_are_no_usual_address_are_refused_before_anybody_resolves_them(host: str) -> None:
    guard = TargetGuard(lookup=answering(["93.184.216.34"]))
    with pytest.raises(TargetRefusedError):
        guard.check_literal(host, PORT)
    with pytest.raises(TargetRefusedError):
        await guard.resolve(host, PORT)


async def test_a_public_name_is_resolved_to_its_addresses_in_order() -> None:
    guard = TargetGuard(lookup=answering(["93.184.216.34", "2606:4700::1"]))

    assert [str(address) for address in await guard.resolve("example.com", PORT)] == ["93.184.216.34", "2606:4700::1"]


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    guard = TargetGuard(lookup=answering(["93.184.216.34", "10.0.0.1"]))

    with pytest.raises(TargetRefusedError):
        await guard.resolve("mixed.example.com", PORT)


async def test_a_name_that_turns_private_is_refused_then() -> None:
    guard = TargetGuard(lookup=answering(["93.184.216.34"], ["169.254.169.254"]))
    await guard.resolve("rebinding.example.com", PORT)

    with pytest.raises(TargetRefusedError):
        await guard.resolve("rebinding.example.com", PORT)


async def test_a_name_without_addresses_is_no_refusal() -> None:
    with pytest.raises(OSError, match="no address"):
        await TargetGuard(lookup=answering([])).resolve("example.com", PORT)


async def test_a_name_that_nobody_could_have_is_refused() -> None:
    with pytest.raises(TargetRefusedError):
        await TargetGuard().resolve("a" * 70 + ".example.com", PORT)


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("crm.internal", "crm.internal", "10.0.0.5"),
        ("CRM.internal.", "crm.Internal", "10.0.0.5"),
        ("crm.internal:443", "crm.internal", "10.0.0.5"),
        ("*.svc.internal", "a.b.svc.internal", "10.0.0.5"),
        ("10.0.0.0/8", "anything.example.com", "10.0.0.5"),
        ("10.0.0.5", "anything.example.com", "10.0.0.5"),
        ("10.0.0.0/8", "anything.example.com", "::ffff:10.0.0.5"),
        ("fd00::/8", "anything.example.com", "fd00::5"),
        ("[fd00::5]:443", "fd00::5", "fd00::5"),
        ("[fd00::5]", "anything.example.com", "fd00::5"),
        ("10.0.0.5:443", "10.0.0.5", "10.0.0.5"),
        ("169.254.169.254", "169.254.169.254", "169.254.169.254"),
        ("metadata.internal", "metadata.internal", "169.254.169.254"),
    ],
)
async def test_what_the_allow_list_names_may_be_reached(entry: str, host: str, address: str) -> None:
    guard = TargetGuard([parse_allow("http.allow", entry)], lookup=answering([address]))

    assert await guard.resolve(host, PORT) == [ip_address(address)]


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("crm.internal:8080", "crm.internal", "10.0.0.5"),
        ("crm.internal", "evil-crm.internal", "10.0.0.5"),
        ("crm.internal", "crm.internal.example.com", "10.0.0.5"),
        ("*.svc.internal", "svc.internal", "10.0.0.5"),
        ("*.svc.internal", "evilsvc.internal", "10.0.0.5"),
        ("10.0.0.0/16", "anything.example.com", "10.1.0.5"),
        ("169.254.0.0/16", "anything.example.com", "169.254.169.254"),
        ("fd00::/8", "anything.example.com", "fd00:ec2::254"),
        ("0.0.0.0/0", "anything.example.com", "fd00::5"),
        ("10.0.0.5:8080", "10.0.0.5", "10.0.0.5"),
        ("*.svc.internal", "a.svc.internal", "169.254.169.254"),
        ("*.svc.internal", "a.svc.internal", "::ffff:169.254.170.2"),
        ("0.0.0.0/0", "anything.example.com", "169.254.170.2"),
        ("0.0.0.0/0", "anything.example.com", "169.254.170.23"),
        ("0.0.0.0/0", "anything.example.com", "192.0.0.192"),
        ("fd00::/8", "anything.example.com", "fd00:ec2::23"),
        ("fe80::/10", "anything.example.com", "fe80::a9fe:a9fe"),
    ],
)
async def test_what_the_allow_list_does_not_name_stays_refused(entry: str, host: str, address: str) -> None:
    guard = TargetGuard([parse_allow("http.allow", entry)], lookup=answering([address]))

    with pytest.raises(TargetRefusedError):
        await guard.resolve(host, PORT)


@pytest.mark.parametrize("text", ["", "a b", "host:0", "host:99999", "host:x", "*.*.x", "http://host", "-a", "x" * 300])
@pytest.mark.parametrize("around", ["{}", "[{}", "[{}]", "{}]", "[{}]:443"])
def test_an_entry_that_means_nothing_is_told(text: str, around: str) -> None:
    with pytest.raises(InvalidError, match=r"http\.allow"):
        parse_allow("http.allow", around.format(text))


@pytest.mark.parametrize("text", ["[crm.internal", "[crm.internal]", "[10.0.0.5]", "[fd00::5", "fd00::5]", "[::1]:x"])
def test_brackets_are_for_addresses_with_colons(text: str) -> None:
    with pytest.raises(InvalidError, match=r"http\.allow"):
        parse_allow("http.allow", text)


@pytest.mark.parametrize("host", ["db.internal", "alias.internal", "10.0.0.9", "::ffff:10.0.0.9"])
async def test_servers_of_our_own_are_no_targets_whatever_the_allow_list_says(host: str) -> None:
    guard = TargetGuard(
        [parse_allow("http.allow", "10.0.0.0/8")], closed=[("DB.internal.", 3306)], lookup=answering(["10.0.0.9"])
    )

    with pytest.raises(TargetRefusedError):
        await guard.resolve(host, 3306)
    assert await guard.resolve(host, PORT)


@pytest.mark.parametrize("own", ["127.0.0.1", "::1", ANY, "::"])
@pytest.mark.parametrize("host", ["127.0.0.2", ANY, "[::1]", "[::ffff:127.0.0.1]", "alias.internal"])
async def test_a_server_of_our_own_on_this_machine_is_closed_at_all_its_own_addresses(own: str, host: str) -> None:
    allow = [parse_allow("http.allow", text) for text in ("127.0.0.0/8", ANY, "::1")]

    async def look_up(name: str, port: int) -> list[str]:
        return [own] if name == "db" else ["127.9.9.9"]

    guard = TargetGuard(allow, closed=[("db", 5432)], lookup=look_up)

    with pytest.raises(TargetRefusedError):
        await guard.resolve(host, 5432)
    assert await guard.resolve(host, PORT)


async def test_name_servers_that_hang_hold_up_nothing_but_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: go_on.wait(PATIENCE_S) and [])
    lookups = [asyncio.create_task(TargetGuard().resolve(f"host{number}.example.com", PORT)) for number in range(64)]
    await asyncio.wait(lookups, timeout=0)
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            await asyncio.to_thread(str)
    finally:
        go_on.set()
        await asyncio.gather(*lookups, return_exceptions=True)


async def test_a_server_of_our_own_without_an_address_closes_nobody_elses_port() -> None:
    async def look_up(host: str, port: int) -> list[str]:
        if host == "db.internal":
            raise socket.gaierror("unknown")
        return ["93.184.216.34"]

    guard = TargetGuard(closed=[("db.internal", 3306)], lookup=look_up)

    assert await guard.resolve("example.com", 3306)
