"""What the code says becomes task configs, and what operators say stays."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application.node import join
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.store import ConfigStore, Store
from rota.application.ports.system import System
from rota.config.declare import MOST_TRIES, declare
from rota.config.settings import TaskSettings
from rota.domain.audit import AuditEntry
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.declaration import find_missing_calendars
from rota.domain.errors import InvalidError, RevisionConflictError
from rota.domain.ids import DEFAULT_TENANT, NodeId, TenantId
from rota.domain.priority import HIGH
from rota.domain.schedule import Overlap, Schedule
from rota.domain.task_config import TaskConfig
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.store import memory_store
from rota.sdk.tasks import TaskFunction, TaskOptions, define
from rota.testing.values import replace
from tests.support.builders import NOW, a_config
from tests.support.clock import FakeClock
from tests.support.virtual import FixedChance

DEFAULTS = TaskSettings(
    timeout=timedelta(seconds=77), max_retries=9, retry_delay=timedelta(seconds=4), backoff_rate=1.5
)


def a_function(task_type: str = "email", **options: Any) -> TaskFunction[[], None]:
    def function() -> None:
        """What it does is of no interest here."""

    return TaskFunction(function, define(task_type, TaskOptions(**options)))  # type: ignore[typeddict-item] # any of them


@pytest.fixture
def configs() -> ConfigStore:
    return memory_store(FakeClock()).configs


async def start(
    functions: Iterable[TaskFunction[..., Any]],
    store: Store,
    *,
    defaults: TaskSettings = DEFAULTS,
    now: datetime = NOW,
    name: str = "node",
) -> None:
    """What a worker of that name declares when it starts."""
    clock = FakeClock()
    node = await join(
        NodeId(name),
        store,
        coordinator=memory_coordinator(clock),
        system=System(clock, FixedChance()),
        collector=NoMetrics(),
    )
    await declare(functions, node, defaults=defaults, now=now)


def beside(configs: ConfigStore) -> Store:
    """A store with these configs, and nothing else in it."""
    return replace(memory_store(FakeClock()), configs=configs)


async def declared(configs: ConfigStore, task_type: str = "email", **options: Any) -> TaskConfig:
    """The config after a worker with this function has started."""
    await start([a_function(task_type, **options)], beside(configs), defaults=DEFAULTS, now=NOW)
    config = await configs.find(DEFAULT_TENANT, task_type)
    assert config is not None
    return config


class Contended:
    """A config store where somebody else is faster, so often."""

    def __init__(self, inner: ConfigStore, rival: Callable[[], TaskConfig], *, times: int) -> None:
        self._inner = inner
        self._rival = rival
        self.left = times

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        return await self._inner.find(tenant_id, task_type)

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        if self.left:
            self.left -= 1
            await self._inner.put(self._rival())
        return await self._inner.put(config, expected_revision=expected_revision, audit=audit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_the_options_of_a_function_become_its_config(configs: ConfigStore) -> None:
    config = await declared(
        configs,
        timeout="10s",
        retries=2,
        retry_delay="3s",
        priority="high",
        max_concurrent=5,
        rate_per_second=2.5,
        name="E-mail",
        description="Sends one",
    )
    assert config.executor_type == "local"
    assert (config.timeout, config.priority) == (timedelta(seconds=10), HIGH)
    assert (config.retry.max_retries, config.retry.delay) == (2, timedelta(seconds=3))
    assert (config.max_concurrent, config.rate_per_second) == (5, 2.5)
    assert (config.name, config.description) == ("E-mail", "Sends one")


async def test_what_a_function_does_not_say_comes_from_the_settings(configs: ConfigStore) -> None:
    config = await declared(configs)
    assert config.timeout == DEFAULTS.timeout
    assert (config.retry.max_retries, config.retry.delay) == (DEFAULTS.max_retries, DEFAULTS.retry_delay)
    assert config.retry.backoff_rate == DEFAULTS.backoff_rate
    assert (config.max_concurrent, config.rate_per_second) == (None, None)


async def test_no_retries_are_something_to_say(configs: ConfigStore) -> None:
    assert (await declared(configs, retries=0)).retry.max_retries == 0


async def test_a_first_pause_beyond_the_longest_is_the_longest(configs: ConfigStore) -> None:
    retry = (await declared(configs, retry_delay="2d")).retry
    assert retry.delay == retry.max_delay == timedelta(days=2)


async def test_every_function_is_declared(configs: ConfigStore) -> None:
    await start([a_function("email"), a_function("report")], beside(configs), defaults=DEFAULTS, now=NOW)
    assert await configs.find(DEFAULT_TENANT, "email")
    assert await configs.find(DEFAULT_TENANT, "report")


@pytest.mark.parametrize(
    "change",
    [
        {"timeout": timedelta(hours=1)},
        {"executor_type": "http"},
        {"is_enabled": False},
    ],
)
async def test_what_an_operator_changed_stays_while_the_code_says_the_same(
    configs: ConfigStore, change: dict[str, Any]
) -> None:
    changed = await configs.put(replace(await declared(configs, timeout="10s"), **change))
    assert await declared(configs, timeout="10s") == changed


async def test_an_executor_config_that_an_operator_added_to_stays_while_the_code_says_the_same(
    configs: ConfigStore,
) -> None:
    made = await declared(configs, timeout="10s")
    wider = made.executor_config.replace("}", ', "queue": "slow"}')
    changed = await configs.put(replace(made, executor_config=wider))
    assert await declared(configs, timeout="10s") == changed


async def test_when_the_code_says_something_new_it_takes_effect(configs: ConfigStore) -> None:
    before = await declared(configs, timeout="10s", retries=1)
    after = await declared(configs, timeout="20s", retries=1)
    assert after.timeout == timedelta(seconds=20)
    assert after.revision > before.revision


async def test_news_from_the_code_leave_to_the_operator_what_is_his(configs: ConfigStore) -> None:
    made = await declared(configs, timeout="10s")
    fires_at = datetime(2031, 1, 1, tzinfo=UTC)
    his = replace(made, is_enabled=False, payload='{"to":"ada"}', schedule=Schedule(cron="0 * * * *"))
    await configs.put(replace(his, next_fire_at=fires_at))
    after = await declared(configs, timeout="20s")
    assert after.timeout == timedelta(seconds=20)
    assert (after.is_enabled, after.payload, after.schedule) == (False, his.payload, his.schedule)
    assert after.next_fire_at == fires_at


@pytest.mark.parametrize("executor_config", ['{"url":"https://example.org"}', "{}", "[]", '"text"', "null"])
async def test_a_config_that_somebody_else_made_is_left_alone(configs: ConfigStore, executor_config: str) -> None:
    theirs = await configs.put(a_config("email", executor_type="http", executor_config=executor_config))
    assert await declared(configs, timeout="20s") == theirs


async def test_workers_that_declare_the_same_at_once_all_succeed(configs: ConfigStore) -> None:
    made = await declared(memory_store(FakeClock()).configs, timeout="10s")
    same = replace(made, revision=0, created_at=None, updated_at=None)
    config = await declared(Contended(configs, lambda: same, times=1), timeout="10s")
    assert (config.timeout, config.revision) == (timedelta(seconds=10), 1)


async def test_a_config_that_appears_meanwhile_is_looked_at_before_it_is_written(configs: ConfigStore) -> None:
    theirs = a_config("email", executor_type="http")
    config = await declared(Contended(configs, lambda: theirs, times=1), timeout="10s")
    assert (config.executor_type, config.revision) == ("http", 1)


async def test_a_config_that_keeps_changing_does_not_keep_a_worker_from_starting(configs: ConfigStore) -> None:
    made = await declared(configs, timeout="10s")
    rivals = (replace(made, timeout=timedelta(seconds=second)) for second in range(100, 200))
    contended = Contended(configs, lambda: next(rivals), times=100)
    assert (await declared(contended, timeout="20s")).timeout == timedelta(seconds=100 + MOST_TRIES - 1)
    with pytest.raises(RevisionConflictError):
        await contended.put(made, expected_revision=made.revision)


async def test_a_changed_default_takes_effect(configs: ConfigStore) -> None:
    await declared(configs)
    await start([a_function()], beside(configs), defaults=TaskSettings(timeout=timedelta(hours=2)), now=NOW)
    config = await configs.find(DEFAULT_TENANT, "email")
    assert config is not None
    assert config.timeout == timedelta(hours=2)


async def test_the_rules_of_a_function_become_those_of_its_config(configs: ConfigStore) -> None:
    config = await declared(configs, retry_on=["5xx"], give_up_on=["501"], total_timeout="1h")
    assert (config.retry.retry_on, config.retry.give_up_on) == (("5xx",), ("501",))
    assert config.retry.total_timeout == timedelta(hours=1)
    changed = await declared(configs, retry_on=["503"])
    assert (changed.revision, changed.retry.retry_on) == (config.revision + 1, ("503",))


async def test_a_declaration_is_recognised_by_the_next_release(configs: ConfigStore) -> None:
    # Pinned: a change here makes every upgrade undo what operators changed.
    config = await declared(configs, retries=2, timeout="1m")
    assert json.loads(config.executor_config) == {"declared": "5e115c741a30f99f"}


def a_cron_function(**schedule: Any) -> TaskFunction[[], None]:
    function = a_function("by_clock")
    return TaskFunction(function.function, replace(function.definition, schedule=Schedule(**schedule)))


async def test_the_schedule_that_the_code_names_is_declared_and_fires_from_now_on(configs: ConfigStore) -> None:
    async def restart(expression: str) -> TaskConfig:
        await start(
            [a_cron_function(cron=expression, zone="Asia/Shanghai")],
            beside(configs),
            defaults=DEFAULTS,
            now=NOW,
        )
        config = await configs.find(DEFAULT_TENANT, "by_clock")
        assert config is not None
        return config

    first = await restart("0 9 * * 1-5")
    assert first.schedule == Schedule(cron="0 9 * * 1-5", zone="Asia/Shanghai")
    assert first.next_fire_at is not None
    changed = await configs.put(replace(first, schedule=Schedule(cron="0 10 * * *")))
    assert await restart("0 9 * * 1-5") == changed, "the code says the same: what the operator changed stays"
    assert (await restart("0 8 * * 1-5")).schedule == Schedule(cron="0 8 * * 1-5", zone="Asia/Shanghai")


async def test_a_schedule_that_cannot_be_fired_keeps_the_worker_from_starting(configs: ConfigStore) -> None:
    function = a_cron_function(cron="0 9 * * *", overlap=Overlap.QUEUE_ONE)
    with pytest.raises(InvalidError, match="max_concurrent"):
        await start([function], beside(configs), defaults=DEFAULTS, now=NOW)


async def test_what_passed_of_a_schedule_that_the_code_changes_is_on_record() -> None:
    store = memory_store(FakeClock())
    await start([a_cron_function(cron="0 * * * *")], store, defaults=DEFAULTS, now=NOW)

    later = NOW + timedelta(hours=3)
    await start([a_cron_function(cron="30 * * * *")], store, defaults=DEFAULTS, now=later)

    [noted] = await store.schedules.list_occurrences(DEFAULT_TENANT, "by_clock")
    assert (noted.reason, noted.since, noted.fire_at) == ("replaced", NOW + timedelta(hours=1), later)
    config = await store.configs.find(DEFAULT_TENANT, "by_clock")
    assert config is not None
    assert config.next_fire_at == later + timedelta(minutes=30)


async def test_a_schedule_that_the_code_names_no_more_goes_and_what_passed_of_it_is_on_record() -> None:
    store = memory_store(FakeClock())
    first = await declare_schedule(store, cron="0 * * * *")
    assert first.schedule is not None
    await store.configs.put(replace(first, schedule=replace(first.schedule, is_paused=True)))

    later = NOW + timedelta(hours=3)
    await start([a_function("email")], store, now=later)

    config = await store.configs.find(DEFAULT_TENANT, "email")
    assert config is not None
    assert (config.schedule, config.next_fire_at) == (None, None)
    [noted] = await store.schedules.list_occurrences(DEFAULT_TENANT, "email")
    assert (noted.reason, noted.since, noted.fire_at) == ("paused", NOW + timedelta(hours=1), later)


async def test_of_a_declaration_of_an_earlier_release_nobody_knows_whether_it_named_the_schedule() -> None:
    store = memory_store(FakeClock())
    first = await declare_schedule(store, cron="0 9 * * *")
    before = json.dumps({"declared": json.loads(first.executor_config)["declared"]})
    await store.configs.put(replace(first, executor_config=before))
    assert (await declared(store.configs, timeout="20s")).schedule == first.schedule


async def test_a_schedule_whose_calendar_is_missing_keeps_the_one_before_until_the_code_names_none() -> None:
    store = memory_store(FakeClock())
    first = await declare_schedule(store, cron="0 9 * * *")
    assert (await declare_schedule(store, cron="0 10 * * *", only=("cn",))).schedule == first.schedule
    await start([a_function("email")], store)
    config = await store.configs.find(DEFAULT_TENANT, "email")
    assert config is not None
    assert config.schedule is None


async def declare_schedule(store: Store, **schedule: Any) -> TaskConfig:
    function = a_function("email")
    function.definition = replace(function.definition, schedule=Schedule(**schedule))
    await start([function], store, defaults=DEFAULTS, now=NOW)
    config = await store.configs.find(DEFAULT_TENANT, "email")
    assert config is not None
    return config


async def test_a_pause_of_an_operator_outlives_a_deploy(configs: ConfigStore) -> None:
    first = await declare_schedule(beside(configs), cron="0 9 * * *")
    assert first.schedule is not None
    paused = replace(first.schedule, is_paused=True, pause_note="until Monday")
    await configs.put(replace(first, schedule=paused))
    after = await declare_schedule(beside(configs), cron="0 10 * * *")
    assert after.schedule == Schedule(cron="0 10 * * *", is_paused=True, pause_note="until Monday")


async def test_what_the_code_says_in_vain_is_told(configs: ConfigStore) -> None:
    await configs.put(a_config("email", schedule=Schedule(cron="0 11 * * *"), timeout=DEFAULTS.timeout))
    with capture_logs() as logs:
        kept = await declare_schedule(beside(configs), cron="0 12 * * *")
    assert kept.schedule == Schedule(cron="0 11 * * *")
    (told,) = logs
    assert (told["event"], told["log_level"], told["task_type"]) == ("config.differs_from_code", "warning", "email")
    assert "schedule" in told["fields"]
    assert "timeout" not in told["fields"]


async def test_a_calendar_that_is_missing_leaves_the_schedule_out_until_it_is_there() -> None:
    store = memory_store(FakeClock())
    with capture_logs() as logs:
        first = await declare_schedule(store, cron="0 10 * * *", only=("cn",))
        again = await declare_schedule(store, cron="0 10 * * *", only=("cn",))
    assert first.schedule is None
    assert again.revision == first.revision
    assert logs[0]["event"] == "config.schedule_left_out"
    assert logs[0]["fix"] == "rota calendar put cn, then start this again"
    assert find_missing_calendars(first) == ["cn"]
    await store.calendars.put(StoredCalendar(calendar=Calendar(name="cn")))
    whole = await declare_schedule(store, cron="0 10 * * *", only=("cn",))
    assert whole.schedule is not None
    assert whole.next_fire_at is not None
    assert find_missing_calendars(whole) == ()


async def test_a_schedule_in_code_that_never_fires_again_is_told_and_stops_nothing(configs: ConfigStore) -> None:
    with capture_logs() as logs:
        ended = await declare_schedule(beside(configs), at=(NOW - timedelta(days=3),))
    assert ended.next_fire_at is None
    assert "config.never_fires" in [line["event"] for line in logs]


async def test_a_mistake_in_a_schedule_names_its_function(configs: ConfigStore) -> None:
    with pytest.raises(InvalidError, match=r"test_declare:a_function.*: schedule.overlap: queue_one needs"):
        await declare_schedule(beside(configs), cron="0 9 * * *", overlap=Overlap.QUEUE_ONE)


def a_documented_function(words: str | None, **options: Any) -> TaskFunction[[], None]:
    def function() -> None: ...

    function.__doc__ = words
    return TaskFunction(function, define("email", TaskOptions(**options)))  # type: ignore[typeddict-item] # any of them


@pytest.mark.parametrize(
    ("words", "options", "description"),
    [
        ("Send an email.", {}, "Send an email."),
        ("Send an email\n    to everybody.\n\n    Slowly.", {}, "Send an email to everybody."),
        ("\n    Send an email.\n    ", {}, "Send an email."),
        ("Send an email.", {"description": "Mail"}, "Mail"),
        (None, {}, ""),
        ("x" * 3000, {}, "x" * 1999 + "…"),
        ("a \x00", {}, "a \N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_the_docstring_describes_the_type_where_nothing_else_does(
    configs: ConfigStore, words: str | None, options: dict[str, Any], description: str
) -> None:
    await start([a_documented_function(words, **options)], beside(configs), defaults=DEFAULTS, now=NOW)
    config = await configs.find(DEFAULT_TENANT, "email")
    assert config is not None
    assert config.description == description


async def test_a_docstring_fills_a_gap_and_undoes_nothing(configs: ConfigStore) -> None:
    async def restart(words: str) -> TaskConfig:
        await start([a_documented_function(words)], beside(configs), defaults=DEFAULTS, now=NOW)
        config = await configs.find(DEFAULT_TENANT, "email")
        assert config is not None
        return config

    plain = await restart("")
    await configs.put(replace(plain, timeout=timedelta(seconds=5)))
    filled = await restart("Send an email.")
    assert (filled.description, filled.timeout) == ("Send an email.", timedelta(seconds=5))
    assert await restart("Send a letter.") == filled, "a docstring is no news"
    theirs = await configs.put(replace(filled, description="", executor_config="{}"))
    assert await restart("Send a letter.") == theirs, "it is somebody else's"


async def test_what_a_start_changes_names_its_node_and_is_on_record() -> None:
    store = memory_store(FakeClock())
    await start([a_function(timeout="10s")], store, name="pod-1")
    await start([a_function(timeout="10s")], store, name="pod-2")
    await start([a_function(timeout="20s", retries=7)], store, name="pod-3")
    revisions = await store.configs.list_revisions(DEFAULT_TENANT, "email", limit=9)
    assert [one.updated_by for one in revisions] == ["pod-3", "pod-1"]
    entries = await store.audit.list_page(DEFAULT_TENANT)
    assert [(one.actor, one.action, one.object, one.detail) for one in entries] == [
        ("pod-3", "config.declare", "email", "timeout, retry"),
        ("pod-1", "config.declare", "email", "new"),
    ]
