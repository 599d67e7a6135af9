"""The code of docs/guides/schedules.md."""

import rota
from rota.testing import advance, run


@rota.cron("30 9 * * 1-5", zone="Asia/Shanghai", timeout="10m")
async def morning_report() -> str:
    return "sent"


def test_nothing_is_sent_before_the_morning() -> None:
    async def scenario(app: rota.Rota) -> int:
        await advance("1m")
        return sum((await app.count()).values())

    assert run(scenario, [morning_report]) == 0
