"""A cluster for trying things out: its servers and three pods on this machine: `make up`, `make down`.

    python -m tools.try_cluster up|down [--topology redis+mysql|redis|sentinel|…] [--app FILE.py]

`up` leaves a keeper behind, which owns the servers and the pods and ends them all when it is told to, or dies. The
servers are private: free ports, a temporary folder, nothing of a server that may run here already.
"""

import argparse
import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from rota.config.load import Sources, load
from rota.config.tokens import issue_token
from rota.infrastructure.database.migrate import upgrade
from rota.interfaces.cli.dev import find_port, write_secret
from rota.interfaces.http.console import is_built
from tests.support.cluster import a_cluster
from tests.support.servers.etcd import EtcdCluster
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

FOLDER = Path(".rota/cluster")
STATE = FOLDER / "state.json"
LOCK = FOLDER / "keeper.lock"
LOG = FOLDER / "keeper.log"
SAMPLES = Path(__file__).resolve().parents[1] / "src/rota/sdk/samples.py"
FIRST_PORT = 8420
PORT_STEP = 10  # room for the other ports of a pod
PODS = 3
READY_WITHIN_S = 120.0
NODE_TIMEOUT = timedelta(seconds=5)  # docs/guides/redis-sentinel-and-cluster.md
Settings = dict[str, dict[str, str]]
GONE_WITHIN_S = 60.0
UNSETTLED = "a cluster is just starting or ending; try again in a moment"
INTERRUPTED = 130  # as shells have it
ENDING = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=["up", "down", "keep"], help="keep is what up leaves behind")
    parser.add_argument("--app", type=Path, default=SAMPLES, help="the file with the tasks (default: the samples)")
    parser.add_argument("--topology", choices=TOPOLOGIES, default=DEFAULT_TOPOLOGY, help="which servers it runs on")
    parser.add_argument("--port", type=int, default=FIRST_PORT, help=f"the first port to try ({FIRST_PORT})")
    options = parser.parse_args(arguments)
    match options.what:
        case "up":
            return up(options.app.resolve(), options.topology, port=options.port)
        case "down":
            return down()
        case _:
            return keep(options.app.resolve(), options.topology, port=options.port)


@contextmanager
def on_redis_and_mariadb() -> Iterator[Settings]:
    with RedisServer(durable=True) as redis, MariaDbServer(MariaDbOptions(durable=True)) as mariadb:
        asyncio.run(upgrade(mariadb.url()))
        yield {"store": {"url": mariadb.url()}, "coordinator": {"url": redis.url()}}


@contextmanager
def on_several_redis(several: RedisSentinels | RedisCluster) -> Iterator[Settings]:
    with several, MariaDbServer(MariaDbOptions(durable=True)) as mariadb:
        asyncio.run(upgrade(mariadb.url()))
        yield {"store": {"url": mariadb.url()}, "coordinator": {"url": several.url()}}


@contextmanager
def on_postgres() -> Iterator[Settings]:
    with PostgresServer(durable=True) as postgres:
        asyncio.run(upgrade(postgres.url()))
        yield {"store": {"url": postgres.url()}, "coordinator": {"url": "sql://"}}


@contextmanager
def on_sqlite() -> Iterator[Settings]:
    url = f"sqlite:///{FOLDER.resolve()}/rota.db"
    asyncio.run(upgrade(url))
    yield {"store": {"url": url}, "coordinator": {"url": "sql://"}}


@contextmanager
def on_redis() -> Iterator[Settings]:
    with RedisServer(durable=True) as redis:
        yield {"store": {"url": redis.url()}, "coordinator": {"url": redis.url()}}


@contextmanager
def on_etcd() -> Iterator[Settings]:
    with EtcdCluster(durable=True) as etcd:
        yield {"store": {"url": etcd.url()}, "coordinator": {"url": etcd.url()}}


TOPOLOGIES: Mapping[str, Callable[[], AbstractContextManager[Settings]]] = {
    "redis+mysql": on_redis_and_mariadb,
    "sentinel": lambda: on_several_redis(RedisSentinels()),
    "cluster": lambda: on_several_redis(RedisCluster(node_timeout=NODE_TIMEOUT)),
    "postgres": on_postgres,
    "redis": on_redis,
    "etcd": on_etcd,
    "sqlite": on_sqlite,
}
SERVERS = {  # what each of them starts
    "redis+mysql": "Redis and MariaDB",
    "sentinel": "Redis with two replicas and three Sentinels, and MariaDB",
    "cluster": "six nodes of a Redis Cluster, and MariaDB",
    "postgres": "PostgreSQL alone",
    "redis": "Redis alone",
    "etcd": "three members of etcd",
    "sqlite": "one SQLite file",
}
DEFAULT_TOPOLOGY = "redis+mysql"


def up(app: Path, topology: str, *, port: int) -> int:
    if (state := read_state()) is not None:
        print(f"a cluster is up already (process {state['pid']}); end it first with: make down")
        return 1
    if is_kept():
        print(UNSETTLED)
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)  # what an earlier one left
    FOLDER.mkdir(parents=True)
    print(f"starting {SERVERS[topology]}, and three pods …", flush=True)
    words = ["keep", "--app", str(app), "--topology", topology, "--port", str(port)]
    with LOG.open("wb") as log:
        keeper = subprocess.Popen(  # noqa: S603 ourselves
            [sys.executable, "-m", "tools.try_cluster", *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started us in its background
    try:
        state = wait_until_up(keeper)
    except KeyboardInterrupt:
        print("\nnot waiting any longer: ending what was started …", flush=True)
        keeper.terminate()
        keeper.wait(GONE_WITHIN_S)
        return INTERRUPTED
    if state is None:
        print(f"it did not start; its log ends with:\n{LOG.read_text('utf-8', errors='replace')[-2000:]}")
        keeper.terminate()
        return 1
    print(describe(state))
    return 0


def wait_until_up(keeper: "subprocess.Popen[bytes]") -> dict[str, Any] | None:
    """What it wrote down; None when it has ended, or took too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while (state := read_state()) is None:
        if keeper.poll() is not None or time.monotonic() > deadline:
            return None
        time.sleep(0.1)
    return state


def describe(state: dict[str, Any]) -> str:
    first, *others = state["urls"]
    page = "console, with the token below" if is_built() else "no console was built"
    lines = [
        f"Rota is up: {len(state['urls'])} pods on {SERVERS[state['topology']]}. Logs and settings: {FOLDER}",
        f"  Open   {first}  ({page}; also {', '.join(others)})",
        f"  Docs   {first}/docs",
        f"  Token  {state['token']}",
        "",
        "Next, in this shell:",
        *(() if shutil.which("rota") else (f"  source {Path(sys.prefix)}/bin/activate   # the rota command is there",)),
        f"  export ROTA_URL={first} ROTA_TOKEN={state['token']}",
        '  rota task submit sample_hello --payload \'{"name": "Ada"}\' --wait',
        "  rota cluster            # who leads? kill that pod and look again:",
        *(f"  kill -9 {pid:<15} # {name}" for name, pid in state["pods"].items()),
        f"  export ROTA_URL={others[0]}   # after pod-1, whose API commands asked so far",
        f"  rota doctor --config {FOLDER}/rota.yaml   # without it, it looks at the settings of this folder",
        "  make down               # ends everything, and deletes its data",
        "Another shell needs the same export: a token that make dev left in this folder is not one of this cluster.",
    ]
    return "\n".join(lines)


def down() -> int:
    state = read_state()
    if state is None:
        is_moving = is_kept()
        print(UNSETTLED if is_moving else "no cluster is up; start one with: make up")
        return int(is_moving)
    with suppress(ProcessLookupError):
        os.kill(state["pid"], signal.SIGTERM)
    deadline = time.monotonic() + GONE_WITHIN_S
    while is_kept():
        if time.monotonic() > deadline:
            print(f"process {state['pid']} is still ending; see {LOG}")
            return 1
        time.sleep(0.1)
    print("the cluster is down; its data is gone with it")
    return 0


def read_state() -> dict[str, Any] | None:
    """What a keeper that lives has written down. Its pid alone proves nothing: another process may have it by now."""
    if is_kept():
        with suppress(FileNotFoundError, ValueError):
            state: dict[str, Any] = json.loads(STATE.read_text("utf-8"))
            return state
    return None


def is_kept() -> bool:
    """Whether a keeper lives: from before the first server starts until the last one has ended."""
    try:
        with LOCK.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def keep(app: Path, topology: str, *, port: int) -> int:
    for number in ENDING:
        signal.signal(number, end)
    lock = LOCK.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process ends, however it does
    with TOPOLOGIES[topology]() as settings:
        token = make_token(settings["store"]["url"])
        with a_cluster(FOLDER.resolve(), settings, app=app) as cluster:
            ports = choose_ports(port)
            with unbroken():
                pods = [
                    cluster.launch("server", f"pod-{place}", "--set", f"api.port={port}", "--set", "api.grpc_port=0")
                    for place, port in enumerate(ports, start=1)
                ]
            for pod in pods:
                pod.wait_for("node.ready")
            urls = [f"http://127.0.0.1:{port}" for port in ports]
            pids = {f"pod-{place}": pod.pid for place, pod in enumerate(pods, start=1)}
            write_state({"pid": os.getpid(), "token": token, "urls": urls, "topology": topology, "pods": pids})
            try:
                threading.Event().wait()
            finally:
                STATE.unlink(missing_ok=True)
    return 0


def end(*_: object) -> NoReturn:
    """Also while it is still starting: what runs so far is ended in order, whatever else is signalled."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


@contextmanager
def unbroken() -> Iterator[None]:
    """A signal that comes meanwhile is heeded afterwards: a process that just began would be nobody's."""
    heard: list[int] = []
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        end()


def make_token(store_url: str) -> str:
    settings = load(Sources(flags={"store.url": store_url}, folder=FOLDER)).settings
    return asyncio.run(issue_token(settings, "make up", role="admin", expires_in=None))[1]


def write_state(state: dict[str, Any]) -> None:
    """All of it or nothing, and for nobody else's eyes: the token is in it."""
    draft = STATE.with_suffix(".new")
    write_secret(draft, json.dumps(state))
    draft.replace(STATE)


def choose_ports(first: int) -> list[int]:
    """One for each pod, where nobody listens."""
    ports = [find_port(first)]
    while len(ports) < PODS:
        ports.append(find_port(ports[-1] + PORT_STEP))
    return ports


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
