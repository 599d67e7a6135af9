from pathlib import Path

import pytest

from tests.unit.interfaces.fake_api import FakeApi, install


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    monkeypatch.chdir(tmp_path)
    return install(monkeypatch)
