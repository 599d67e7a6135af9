"""Settings change while the process runs: what can change does, what cannot is said, what is broken is refused."""

import asyncio
import json
import re
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from rota.application.loop import Loops
from rota.application.ports.metrics import NoMetrics
from rota.config.load import Loaded, Sources, load
from rota.config.registry import Registries, load_known
from rota.config.reload import POLL_EVERY, Change, LiveSettings
from rota.config.settings import Settings
from rota.infrastructure.system import SystemRandom
from tests.support.clock import FakeClock


class Watched:
    """Live settings over a file, and what their subscriber was told."""

    def __init__(self, folder: Path, text: str | None) -> None:
        self.reads = 0
        self.path = folder / "rota.yaml"
        if text is not None:
            self.write(text)
        self.sources = Sources(folder=folder, environment={"ROTA_WORKER__WEIGHT": "2"})
        self.live = LiveSettings(self.read(), read=self.read, find_file=lambda: self.sources.find_file())
        self.told: list[Settings] = []
        self.live.subscribe(self.told.append)

    def read(self) -> Loaded:
        self.reads += 1
        return load_known(self.sources, Registries())

    def write(self, text: str) -> None:
        self.path.write_text(text, "utf-8")


def names_of(logs: list[EventDict]) -> list[str]:
    return [line["event"] for line in logs]


async def test_a_changed_file_changes_what_can_change_and_tells_the_subscribers(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")
    watched.write("worker: {capacity: 200}\nscheduler: {balancer: round_robin}")

    await watched.live.poll()

    assert [settings.worker.capacity for settings in watched.told] == [200]
    assert watched.live.current.scheduler.balancer == "round_robin"
    assert watched.live.current.worker.weight == 2, "the environment still counts"


async def test_a_file_that_stays_the_same_is_not_read_again(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")
    await watched.live.poll()
    reads = watched.reads

    with capture_logs() as logs:
        await watched.live.poll()

    assert (watched.told, logs, watched.reads) == ([], [], reads)


async def test_a_change_between_loading_and_watching_is_not_missed(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")
    loaded = watched.read()
    watched.write("worker: {capacity: 11}")
    live = LiveSettings(loaded, read=watched.read, find_file=watched.sources.find_file)

    await live.poll()

    assert live.current.worker.capacity == 11


async def test_a_file_that_appears_later_counts(tmp_path: Path) -> None:
    watched = Watched(tmp_path, None)
    watched.write("log: {level: debug}")

    await watched.live.poll()

    assert watched.live.current.log.level == "debug"


async def test_a_file_that_is_just_being_written_changes_nothing(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 20}")
    watched.write("")  # as it is for a moment when it is written in place
    await watched.live.poll()
    assert watched.live.current.worker.capacity == 20

    def read_too_early() -> Loaded:
        loaded = watched.read()
        watched.write("worker: {capacity: 300, weight: 3}")
        return loaded

    watched.write("worker: {capacity: 3}")
    live = LiveSettings(watched.live._loaded, read=read_too_early, find_file=watched.sources.find_file)
    assert await live.reload() == Change()
    await watched.live.poll()
    assert watched.live.current.worker.capacity == 300


async def test_a_file_that_is_gone_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 20}")
    watched.path.unlink()
    await watched.live.poll()
    assert watched.live.current.worker.capacity == 20

    watched.write("worker: {capacity: 300}")
    await watched.live.poll()

    assert watched.live.current.worker.capacity == 300


async def test_a_change_that_needs_a_new_start_is_logged_and_not_applied(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "")
    watched.write("store: {url: 'memory://'}\nworker: {capacity: 5}")

    with capture_logs() as logs:
        change = await watched.live.reload()

    assert change.restart_needed == {"store.url"}
    assert change.applied == {"worker.capacity"}
    assert watched.live.current.store == Settings().store
    assert watched.live.current.worker.capacity == 5
    assert names_of(logs) == ["settings.restart_needed", "settings.changed"]
    assert (logs[1]["before"], logs[1]["after"]) == ({"worker.capacity": 10}, {"worker.capacity": 5})
    assert logs[0]["settings"] == ["store.url"]


async def test_the_settings_in_force_are_described_with_what_waits_for_a_new_start(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")
    watched.write("worker: {capacity: 11}\nstore: {url: 'memory://'}")
    await watched.live.poll()
    shown = {row.key: row for row in watched.live.describe()}
    capacity, store = shown["worker.capacity"], shown["store.url"]
    assert (capacity.value, capacity.default, capacity.source, capacity.origin) == (11, 10, "file", "rota.yaml:1")
    assert (capacity.is_live, capacity.is_waiting) == (True, False)
    assert (store.value, store.source, store.is_live, store.is_waiting) == (store.default, "default", False, True)
    assert shown["worker.weight"].source == "environment"
    watched.write("worker: {capacity: 12}")
    await watched.live.poll()
    assert not any(row.is_waiting for row in watched.live.describe()), "it was taken back"


def test_nothing_secret_is_described_and_of_plugins_nothing_but_their_names(tmp_path: Path) -> None:
    plugin = '{"name": "alerts", "pin": 4711, "webhook": "https://chat/hooks/hunter6"}'
    (tmp_path / "rota.yaml").write_text(f"plugins: [{plugin}]", "utf-8")
    sources = Sources(
        folder=tmp_path,
        environment={
            "ROTA_STORE__URL": "mysql://root:hunter1@host/rota",
            "ROTA_COORDINATOR__URL": "redis+sentinel://:hunter2@a:1,b:2/main?sentinel_password=hunter3",
            "ROTA_HTTP__SECRETS": json.dumps({"default": {"keys": [f"whsec_{'a' * 32}"], "hosts": ["crm"]}}),
            "ROTA_HTTP__TARGETS": json.dumps({"crm": {"hosts": ["crm"], "secret_headers": {"X-Key": "hunter4"}}}),
            "ROTA_GRPC__TARGETS": json.dumps({"crm": {"hosts": ["crm"], "secret_metadata": {"key": "hunter5"}}}),
        },
    )
    live = LiveSettings(load(sources), read=lambda: load(sources), find_file=sources.find_file)
    text = json.dumps([asdict(row) for row in live.describe()])
    assert not re.findall(r"hunter\d|4711|whsec_\w+", text)
    shown = {row.key: row.value for row in live.describe()}
    assert shown["plugins"] == [{"name": "alerts", "pin": "***", "webhook": "***"}]
    assert shown["store.url"] == "mysql://root:***@host/rota"


@pytest.mark.parametrize("text", ["worker: {capacity: 0}", "worker: [", "scheduler: {balancer: best}"])
async def test_a_broken_file_is_logged_and_the_old_settings_stay(tmp_path: Path, text: str) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 20}")
    watched.write(text)

    with capture_logs() as logs:
        await watched.live.poll()
        await watched.live.poll()

    assert names_of(logs) == ["settings.rejected"], "said once, not every second"
    assert watched.live.current.worker.capacity == 20
    assert watched.told == []


async def test_a_named_file_that_vanished_is_rejected_when_asked_to_reload(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 20}")
    watched.sources = Sources(file=watched.path)
    watched.path.unlink()

    with capture_logs() as logs:
        await watched.live.poll()
        assert logs == [], "gone for a moment, perhaps"
        await watched.live.reload()

    assert names_of(logs) == ["settings.rejected"]


async def test_subscribers_are_not_called_when_nothing_changes_for_them(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "")
    watched.write("worker: {lease: 15s}")

    change = await watched.live.reload()

    assert change == Change(restart_needed=frozenset({"worker.lease"}))
    assert watched.told == []


async def test_a_subscriber_that_fails_keeps_the_change_from_nobody_else(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")

    def fail(settings: Settings) -> None:
        raise ZeroDivisionError

    told: list[Settings] = []
    watched.live.subscribe(fail)
    watched.live.subscribe(told.append)
    watched.write("worker: {capacity: 200}")
    with capture_logs() as logs:
        change = await watched.live.reload()

    assert change == Change(applied=frozenset({"worker.capacity"}))
    assert [settings.worker.capacity for settings in told] == [200]
    assert names_of(logs) == ["settings.changed", "settings.not_applied"]


async def test_the_watch_looks_every_second(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "worker: {capacity: 10}")
    clock = FakeClock()
    told = asyncio.Event()
    watched.live.subscribe(lambda _settings: told.set())
    polls = 0

    async def poll() -> None:
        nonlocal polls
        await watched.live.poll()
        polls += 1
        polled.set()

    polled = asyncio.Event()
    loops = Loops(clock, SystemRandom(), NoMetrics())
    watching = asyncio.create_task(loops.keep("settings.watch", poll, every=POLL_EVERY))
    await polled.wait()
    watched.write("worker: {capacity: 400}")
    await clock.run(timedelta(milliseconds=999))
    assert (polls, told.is_set()) == (1, False)

    await clock.run(timedelta(milliseconds=1))
    await told.wait()

    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
