"""What the URLs of Sentinels and clusters say, and what is told of those that say nothing sensible."""

from pathlib import Path

import pytest

from rota.domain.errors import ConfigError
from rota.infrastructure.coordination.redis_address import (
    Login,
    RedisAddress,
    Server,
    Topology,
    find_topology,
    parse_address,
)
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.telemetry.redact import redact_text


def test_sentinels_have_usual_ports_and_no_login_of_the_nodes() -> None:
    assert parse_address("redis+sentinel://me:s%40fe@one,two:9,[::1]:7/shop/3?sentinel_password=other") == RedisAddress(
        topology=Topology.SENTINEL,
        servers=(Server("one", 26379), Server("two", 9), Server("::1", 7)),
        nodes=Login(user="me", password="s@fe"),
        sentinels=Login(password="other"),
        service="shop",
        database=3,
    )


def test_a_cluster_has_usual_ports() -> None:
    assert parse_address("REDIS+CLUSTER://:pw@one,two:9/0") == RedisAddress(
        topology=Topology.CLUSTER, servers=(Server("one", 6379), Server("two", 9)), nodes=Login(password="pw")
    )


def test_tls_is_for_nodes_and_sentinels_unless_said_otherwise(tmp_path: Path) -> None:
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    ca.touch()
    own.touch()
    both = parse_address(f"rediss+sentinel://one/shop?ca={ca}&cert={own}&key={own}")
    assert both.nodes == both.sentinels == Login(has_tls=True, ca=str(ca), cert=str(own), key=str(own))
    nodes = parse_address(f"rediss+sentinel://one/shop?ca={ca}&sentinel_tls=false")
    assert (nodes.nodes, nodes.sentinels) == (Login(has_tls=True, ca=str(ca)), Login())
    sentinels = parse_address(f"redis+sentinel://one/shop?sentinel_tls=true&sentinel_ca={ca}")
    assert (sentinels.nodes, sentinels.sentinels) == (Login(), Login(has_tls=True, ca=str(ca)))


@pytest.mark.parametrize("url", ["redis://one", "rediss://one", "unix:///path", "memory://", "redis+other://one"])
def test_other_urls_name_one_server(url: str) -> None:
    assert find_topology(url) is None
    with pytest.raises(ConfigError):
        parse_address(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis+sentinel://one", "the name that Sentinels give"),
        ("redis+sentinel:///shop", "server 1 has no name"),
        ("redis+sentinel://one,,two/shop", "server 2 has no name"),
        ("redis+sentinel://one/shop/first", "is no number"),
        ("redis+sentinel://one:port/shop", "server 1 is not host:port"),
        ("redis+sentinel://me:hid/den@one/shop", "has an @ behind its servers; in a password"),
        ("redis+sentinel://me:12#hid/den@one/shop", "has an @ behind its servers; in a password"),
        ("redis+sentinel://me:12?hid/den@one/shop", "an option is not known; in a password"),
        ("redis+cluster://me:12?hid/=den@one", "an option is not known; in a password"),
        ("redis+sentinel://one/shop?sentinel_tls=yes", "neither true nor false"),
        ("redis+sentinel://one/shop?sentinel_ca=a.pem", "certificates are for TLS"),
        ("redis+sentinel://one/shop?hidden=1", "is not known"),
        ("redis+cluster://one/1", "the database 0 alone"),
        ("redis+cluster://one?sentinel_password=hidden", "'sentinel_password' is not known"),
        ("redis+cluster://one?ca=a.pem", "certificates are for TLS"),
        ("rediss+cluster://one?cert=a.pem", "cert and key go together"),
        ("rediss+cluster://one?ca=nowhere.pem", "there is no file nowhere.pem"),
        (f"redis+cluster://{','.join(['one'] * 33)}", "33 servers are more than 32"),
        ("redis://me:hid/den@one:6379", "the port is no number; in a password"),
        ("redis://me:hid[den@one", "cannot be read; in a password"),
        ("redis+sentinel://me:hid]den@one/shop", "cannot be read; in a password"),
        ("redis+cluster://me:x[hid]den@one", "cannot be read; in a password"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RedisClient(url)
    told = str(caught.value)
    assert problem in told
    assert "hid/" not in told and "'hid'" not in told and "hid]" not in told and "den" not in told.replace("hidden", "")


def test_an_address_does_not_show_its_passwords() -> None:
    shown = repr(parse_address("redis+sentinel://me:hidden@one/shop?sentinel_password=hidden"))
    assert "hidden" not in shown


def test_passwords_are_covered_where_a_url_is_shown() -> None:
    shown = redact_text("redis+sentinel://me:hidden@one:1,two:2/shop?sentinel_user=me&sentinel_password=hidden")
    assert shown == "redis+sentinel://me:***@one:1,two:2/shop?sentinel_user=me&sentinel_password=***"
