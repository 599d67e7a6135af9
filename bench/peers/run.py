"""What do other task queues reach on this machine, in the same run, with the same Redis and PostgreSQL?

    python -m bench.peers.run [--rounds 3] [--only dramatiq] [--share 1.0]

Each is installed from PyPI by pip into an environment of its own below `.venv/peers`, and run the best way that it
documents (`bench/peers/*_app.py` says how): the same task that does nothing, with a payload of about a hundred bytes,
in two worker processes. As for Rota: *drain* of tasks that were created before, and *both*, created and worked on at
once; until the last one has run, and with Procrastinate and PgQueuer, which alone keep a durable record of every task,
until that is written, as with Rota. The CPU of a task is counted from the first one on, without the start of workers
and producer. What cannot be installed or does not run is told.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from venv import EnvBuilder

import asyncpg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.end_to_end import Part, say, spell
from bench.gathering import FAILURES
from bench.grounds import Ground, ground
from bench.options import parser_of, within
from bench.peers.catalogue import PEERS, Peer
from bench.usage import MachineWatch, cpu_seconds, memory_bytes, per_task

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv" / "peers"
INSTALL_S = 300
READY_S = 60.0
STOP_S = 5.0
MOST_S = 90.0
LOOK_EVERY_S = 0.005
RECORD_EVERY_S = 0.02  # as Rota's own tables are looked at
WARM_UP = 200  # tasks
LEAST_TASKS = 1_000  # fewer are over before they are under way


class PeerFailedError(RuntimeError):
    """It could not be installed, or did not do its work."""


@dataclass(slots=True)
class PeerFound:
    version: str
    drain: Part
    both: Part
    memory: float = 0.0  # MiB of all its workers, after the work


def install(peer: Peer) -> tuple[Path, str]:
    """The programs of its environment, which is made once for a list of packages; and its release."""
    folder = ENVIRONMENTS / peer.name
    programs, ready, packages = folder / "bin", folder / "ready", "\n".join(peer.packages)
    if not ready.exists() or ready.read_text() != packages:
        say(f"{peer.name}: installing …")
        EnvBuilder(clear=True, with_pip=True).create(folder)
        _run([str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check", *peer.packages])
        ready.write_text(packages)
    query = f"import importlib.metadata as found; print(found.version('{peer.name}'))"
    return programs, _run([str(programs / "python"), "-c", query]).strip()


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(  # noqa: S603 our own list
            command, capture_output=True, text=True, timeout=INSTALL_S, check=True, env=environment, cwd=ROOT
        )
    except (subprocess.SubprocessError, OSError) as exc:
        said = getattr(exc, "stderr", None) or str(exc)
        raise PeerFailedError(str(said).strip().splitlines()[-1][:200]) from exc
    return done.stdout


@dataclass(slots=True)
class Running:
    """A peer on an empty server."""

    peer: Peer
    programs: Path
    environment: Mapping[str, str]
    url: str
    count: Path

    @contextmanager
    def producing(self, tasks: int) -> Iterator[subprocess.Popen[str]]:
        """Ends with it: one that is late must not go on beside what is measured next."""
        command = [str(self.programs / "python"), "-m", "bench.peers.produce", self.peer.module, str(tasks)]
        producer = subprocess.Popen(  # noqa: S603 our own list
            command, stdout=subprocess.PIPE, text=True, env=self.environment, cwd=ROOT
        )
        with producer:
            try:
                yield producer
                if producer.wait(MOST_S) != 0:
                    raise PeerFailedError("its producer failed")
            finally:
                producer.kill()

    @contextmanager
    def workers(self) -> Iterator[list[int]]:
        first, *words = (word.format(url=self.url) for word in self.peer.worker)
        with ExitStack() as stack:
            started = [
                stack.enter_context(self._worker([str(self.programs / first), *words]))
                for _ in range(self.peer.processes)
            ]
            yield [worker.pid for worker in started]

    @contextmanager
    def _worker(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        log = self.count.with_suffix(".log").open("ab")
        worker = subprocess.Popen(  # noqa: S603 our own list
            command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, cwd=ROOT, start_new_session=True
        )
        try:
            yield worker
        finally:
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(STOP_S)
            _end_group(worker.pid)
            log.close()

    def wait_for(self, tasks: int, *, since: int, most: float = MOST_S) -> float:
        """Seconds since 1970 when so many had run, since the count was this."""
        deadline = time.monotonic() + most
        while self.counted() - since < tasks:
            if time.monotonic() > deadline:
                said = self.count.with_suffix(".log").read_text(errors="replace").strip().splitlines()[-1:] or [
                    "nothing"
                ]
                problem = f"{self.counted() - since} of {tasks} tasks had run after {most:.0f} s"
                raise PeerFailedError(f"{problem}; it said: {said[0][:200]}")
            time.sleep(LOOK_EVERY_S)
        return time.time()

    def wait_until_recorded(self, ended_at: float) -> float:
        """Seconds since 1970 when the last end was on record, where there is one: it is written down later, and Rota's
        clock runs until then, too."""
        if not self.peer.keeps_record:
            return ended_at
        return asyncio.run(_wait_until_none(self.url, self.peer.open_tasks))

    def counted(self) -> int:
        return self.count.stat().st_size if self.count.exists() else 0


async def _wait_until_none(url: str, query: str) -> float:
    connection, deadline = await asyncpg.connect(url), time.monotonic() + MOST_S
    try:
        while await connection.fetchval(query) is not None:
            if time.monotonic() > deadline:
                raise PeerFailedError(f"not all ends were on record after {MOST_S:.0f} s")
            await asyncio.sleep(RECORD_EVERY_S)
    finally:
        await connection.close()
    return time.time()


def _end_group(leader: int) -> None:
    """Whatever its worker left behind; the group is its own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextmanager
def fresh(where: Ground, peer: Peer, *, programs: Path) -> Iterator[Running]:
    """The peer with nothing in its queue."""
    url = asyncio.run(where.empty(peer.database))
    with TemporaryDirectory() as folder:
        count = Path(folder, "count")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PEER_URL": url,
            "PEER_COUNT": str(count),
            "PGDSN": url,
        }
        if peer.prepare:
            first, *words = (word.format(url=url) for word in peer.prepare)
            _run([str(programs / first), *words], environment)
        yield Running(peer, programs, environment, url, count)


def measure(where: Ground, peer: Peer, *, rounds: int, share: float) -> PeerFound:
    programs, version = install(peer)
    found = PeerFound(version, Part(), Part())
    tasks = max(int(peer.tasks * share), LEAST_TASKS)
    for number in range(1, rounds + 1):
        with fresh(where, peer, programs=programs) as running:
            drain(where, running, tasks=tasks, part=found.drain)
            both(where, running, tasks=tasks, found=found)
        rates = f"drain {found.drain.rates[-1]:,.0f}, both {found.both.rates[-1]:,.0f}"
        say(f"{peer.name} {version}, round {number} of {rounds}: {rates} tasks/s")
    return found


def drain(where: Ground, running: Running, *, tasks: int, part: Part) -> None:
    """Create first; the clock starts with the first that runs."""
    with running.producing(tasks):
        pass
    with running.workers() as pids:
        began_at = running.wait_for(1, since=0, most=READY_S)
        before, watch = _spent(where, pids), MachineWatch()  # without their start
        ended_at = running.wait_until_recorded(running.wait_for(tasks, since=0))
        cpu = per_task(before, _spent(where, pids), tasks=tasks)
    machine = watch.read(sum(cpu.values()) * tasks / 1e6)
    part.note(tasks, max(ended_at - began_at, LOOK_EVERY_S), cpu=cpu, machine=machine)


def both(where: Ground, running: Running, *, tasks: int, found: PeerFound) -> None:
    """Create while workers run, who have warmed up."""
    with running.workers() as pids:
        _warm_up(running)
        since = running.counted()
        with running.producing(tasks) as producer:
            began_at = _told(producer)
            before, watch = _spent(where, pids), MachineWatch()
            ended_at = running.wait_until_recorded(running.wait_for(tasks, since=since))
            cpu = per_task(before, _spent(where, pids), tasks=tasks)
            cpu["producer"] = _told(producer) / tasks * 1e6
        machine = watch.read(sum(cpu.values()) * tasks / 1e6)
        found.both.note(tasks, ended_at - began_at, cpu=cpu, machine=machine)
        found.memory = sum(map(memory_bytes, pids)) / 2**20


def _warm_up(running: Running) -> None:
    since = running.counted()
    with running.producing(WARM_UP):
        pass
    running.wait_until_recorded(running.wait_for(WARM_UP, since=since, most=READY_S))


def _spent(where: Ground, workers: Sequence[int]) -> dict[str, float]:
    """CPU seconds so far, of each server and of all workers."""
    servers = {name: cpu_seconds(pid) for name, pid in where.pids.items()}
    return servers | {"workers": sum(map(cpu_seconds, workers))}


def _told(producer: subprocess.Popen[str]) -> float:
    """The next number that it says."""
    line = producer.stdout.readline() if producer.stdout is not None else ""
    if not line:
        raise PeerFailedError("its producer failed")
    return float(line)


def measure_all(names: Sequence[str], *, rounds: int, share: float) -> dict[str, PeerFound | str]:
    """By name what was found, or why nothing was."""
    results: dict[str, PeerFound | str] = {}
    with ground("redis+postgresql") as where:
        for peer in PEERS:
            if not names or peer.name in names:
                try:
                    results[peer.name] = measure(where, peer, rounds=rounds, share=share)
                except FAILURES as exc:
                    results[peer.name] = f"{type(exc).__name__}: {exc}"
                    say(f"{peer.name}: {exc}")
    return results


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=within(1), default=3, help="the result is their median")
    parser.add_argument("--share", type=within(0.01), default=1.0, help="of the usual number of tasks")
    parser.add_argument(
        "--only", choices=[peer.name for peer in PEERS], action="append", help="this alone; may be repeated"
    )
    options = parser.parse_args()
    print(f"{'':16s}{'release':>10s}{'drain/s':>10s}{'both/s':>10s}{'workers, MiB':>14s}")
    for name, found in measure_all(options.only or (), rounds=options.rounds, share=options.share).items():
        if isinstance(found, str):
            print(f"{name:16s}  could not be measured: {found}")
        else:
            rates = f"{found.drain.rate:10,.0f}{found.both.rate:10,.0f}{found.memory:14.0f}"
            print(f"{name:16s}{found.version:>10s}{rates}   CPU of a task, in µs: {spell(found.both.spent())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
