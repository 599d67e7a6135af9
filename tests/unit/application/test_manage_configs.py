"""Task configs, as people change them."""

from dataclasses import replace

import pytest

from rota.application.audit import Actor
from rota.application.manage_configs import MOST_TRIES, ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.errors import ConflictError, InvalidError, NotFoundError, RevisionConflictError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.task_config import TaskConfig
from tests.support.builders import EMAIL, a_config, a_submission
from tests.support.virtual import Bench, a_bench, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")
KEY = (DEFAULT_TENANT, EMAIL)


async def a_manager() -> tuple[Bench, ManageConfigs]:
    bench = await a_bench()
    return bench, ManageConfigs(bench.node, SubmitTasks(bench.node))


@virtually
async def test_a_config_is_put_found_listed_and_deleted() -> None:
    _, configs = await a_manager()
    assert (await configs.put(a_config(EMAIL), expected_revision=0)).revision == 1
    assert (await configs.get(*KEY)).type == EMAIL
    assert [config.type for config in await configs.list_page(DEFAULT_TENANT)] == [EMAIL]
    await configs.delete(*KEY)
    with pytest.raises(NotFoundError) as caught:
        await configs.get(*KEY)
    assert caught.value.code == "task_config_not_found"
    with pytest.raises(NotFoundError):
        await configs.delete(*KEY)


@virtually
async def test_only_the_revision_that_was_expected_is_replaced() -> None:
    _, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    with pytest.raises(RevisionConflictError):
        await configs.put(a_config(EMAIL, name="other"), expected_revision=0)
    for wrong in (-1, 2**31):
        with pytest.raises(InvalidError, match="revision"):
            await configs.put(a_config(EMAIL), expected_revision=wrong)


@virtually
async def test_a_paused_type_takes_no_tasks_here_from_that_moment() -> None:
    _, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    await configs.trigger(a_submission())
    assert not (await configs.pause(*KEY)).is_enabled
    assert not (await configs.pause(*KEY)).is_enabled, "once more changes nothing"
    with pytest.raises(InvalidError, match="is disabled"):
        await configs.trigger(a_submission())
    assert (await configs.resume(*KEY)).is_enabled
    assert not (await configs.trigger(a_submission())).is_repeat


@virtually
async def test_what_is_not_there_cannot_be_triggered() -> None:
    _, configs = await a_manager()
    with pytest.raises(NotFoundError):
        await configs.trigger(a_submission())


@virtually
async def test_every_change_is_recorded() -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL), actor=ADA)
    await configs.pause(*KEY, actor=ADA)
    await configs.resume(*KEY, actor=ADA)
    await configs.delete(*KEY, actor=ADA)
    entries = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    actions = [(entry.action, entry.object) for entry in entries[::-1]]
    assert actions == [(f"config.{verb}", EMAIL) for verb in ("put", "pause", "resume", "delete")]


@pytest.mark.parametrize("times", [1, MOST_TRIES])
@virtually
async def test_a_config_that_changes_meanwhile_is_read_again(times: int) -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    store, changes = bench.node.store.configs, times
    find = store.find

    async def find_and_change(*key: str) -> TaskConfig | None:
        nonlocal changes
        found = await find(*KEY)
        if found is not None and changes:
            changes -= 1
            await store.put(replace(found, description=f"changed {changes}"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "find", find_and_change)
        if times < MOST_TRIES:
            assert not (await configs.pause(*KEY)).is_enabled
        else:
            with pytest.raises(ConflictError, match="try again"):
                await configs.pause(*KEY)


@virtually
async def test_a_config_that_its_executor_could_not_run_is_refused_and_nothing_changes() -> None:
    def refuse(config: TaskConfig) -> None:
        raise InvalidError("executor.url", "is missing")

    bench, _ = await a_manager()
    configs = ManageConfigs(bench.node, SubmitTasks(bench.node), refuse)
    with pytest.raises(InvalidError, match=r"executor\.url"):
        await configs.put(a_config())
    with pytest.raises(NotFoundError):
        await configs.get(DEFAULT_TENANT, EMAIL)
