import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.domain.errors import ConfigError, NotFoundError
from rota.sdk.app import AppRef, load_function


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_file_is_loaded_once_and_finds_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "rota_test_neighbour.py", "VALUE = 7")
    app = AppRef(write(tmp_path / "rota_test_app.py", "from rota_test_neighbour import VALUE"))

    loaded = app.load()

    assert loaded.VALUE == 7
    assert app.module == "rota_test_app"
    assert app.load() is loaded


def test_a_module_is_loaded_by_its_name() -> None:
    assert AppRef("tests.support.clock").load().__name__ == "tests.support.clock"


@pytest.mark.parametrize("text", ["no_such_app", "tests.no_such_app", "no/such/file", "no_such_file.py"])
def test_what_does_not_exist_is_said_so(text: str) -> None:
    with pytest.raises(ConfigError, match="there is no"):
        AppRef(text).load()


def test_a_module_that_an_app_lacks_is_not_mistaken_for_the_app(tmp_path: Path) -> None:
    app = AppRef(write(tmp_path / "rota_test_lacking.py", "import rota_test_missing"))
    sys.path.insert(0, str(tmp_path))

    with pytest.raises(ModuleNotFoundError, match="rota_test_missing"):
        app.load()
    with pytest.raises(ModuleNotFoundError, match="rota_test_missing"):
        AppRef("rota_test_lacking").load()
    assert "rota_test_lacking" not in sys.modules


def test_a_file_must_not_take_the_name_of_a_module(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rename the file"):
        AppRef(write(tmp_path / "json.py", "")).load()


def test_a_file_that_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no Python file"):
        AppRef(write(tmp_path / "tasks.txt", "")).load()


def test_a_function_is_found_by_its_reference() -> None:
    assert load_function("tests.support.clock:FakeClock.advance").__name__ == "advance"
    with pytest.raises(NotFoundError):
        load_function("tests.support.clock:nothing.here")


@pytest.mark.parametrize("reference", ["tests.support.cluster:os.system", "tests.support.cluster:subprocess.Popen"])
def test_what_a_module_has_only_imported_cannot_be_named(reference: str) -> None:
    with pytest.raises(NotFoundError):
        load_function(reference)
