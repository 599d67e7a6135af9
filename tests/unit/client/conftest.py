import pytest

from tests.unit.client.dial import Dial


@pytest.fixture(params=[False, True], ids=["Client", "AsyncClient"])
def dial(request: pytest.FixtureRequest) -> Dial:
    return Dial(request.param)
