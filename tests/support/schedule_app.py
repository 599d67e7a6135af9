"""A task that runs every second, for the end-to-end tests."""

import rota
from tests.support.cluster_app import note


@rota.cron("* * * * * *", type="tick", schedule={"overlap": "allow"})
async def tick(ctx: rota.Context) -> None:
    note(ctx, "ticked")
