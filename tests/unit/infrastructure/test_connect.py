"""Connections that end before they are of use."""

import pytest

from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.system import SystemClock, SystemRandom


async def test_a_server_that_hangs_up_as_soon_as_it_has_accepted_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = pytest.importorskip("asyncmy.connection")

    async def hang_up(_connection: object) -> None:
        raise RuntimeError("Transport does not expose socket instance")

    monkeypatch.setattr(driver, "Connection", type("Connection", (driver.Connection,), {"connect": hang_up}))
    database = open_database("mysql://nobody@127.0.0.1:1/rota", clock=SystemClock(), random=SystemRandom())
    try:
        with pytest.raises(StoreUnavailableError):
            await database.read(database.now_us)
    finally:
        await database.close()
