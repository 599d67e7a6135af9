"""Where the user's tasks are: a file or a module. Loading it runs its decorators, which note the tasks down."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rota.domain.errors import ConfigError, NotFoundError


@dataclass(frozen=True, slots=True)
class AppRef:
    """A file path (`tasks.py`, `/srv/app/tasks.py`) or the name of a module (`shop.tasks`)."""

    text: str

    @property
    def is_file(self) -> bool:
        return self.text.endswith(".py") or "/" in self.text

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return Path(self.text).stem if self.is_file else self.text

    def load(self) -> ModuleType:
        """Import it, once in a process. Raises `ConfigError` when there is nothing; its own errors pass through."""
        return self._load_file() if self.is_file else self._load_module()

    def _load_module(self) -> ModuleType:
        try:
            return importlib.import_module(self.text)
        except ModuleNotFoundError as exc:
            if exc.name is None or not f"{self.text}.".startswith(f"{exc.name}."):
                raise  # the app is there; something that it imports is not
            problem = f"there is no module {self.text!r}"
            raise ConfigError(problem, fix="--app with a module that can be imported, or a file") from exc

    def _load_file(self) -> ModuleType:
        path = Path(self.text).resolve()
        if not path.is_file():
            raise ConfigError(f"there is no file {path}", fix="--app with the path of the file with your tasks")
        name = self.module
        known = sys.modules.get(name)
        if known is not None:
            if getattr(known, "__file__", None) == str(path):
                return known
            raise ConfigError(f"{path} cannot be loaded as {name!r}: a module of that name exists; rename the file")
        folder = str(path.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)  # as `python file.py` does, so that it finds its neighbours
        return _run_file(name, path)


def _run_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is no Python file; give the path of the file with your tasks")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half a module must not be found by the next import
        raise
    return module


def load_function(reference: str) -> Callable[..., Any]:
    """Import a function by `module:function`. Raises `NotFoundError`, or whatever its module raises.

    It must be the module's own: what the module has merely imported (`os`, say) is nobody's to name."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    owner = str(getattr(found, "__module__", None))
    if not callable(found) or not f"{owner}.".startswith(f"{module}."):
        raise NotFoundError("function", reference)
    return found  # type: ignore[no-any-return] # callable: that is all one can know of it
