"""Makes installed packages on the fly, as pip would leave them: modules beside a dist-info with entry points."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import pytest

SAMPLE = Path(__file__).with_name("rota_sample_alerts.py")


def install_package(folder: Path, name: str, *, points: Mapping[str, str], version: str = "1.2.0") -> None:
    """A package without modules of its own; `points` are lines such as `alerts = module:Class` by group."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    sections = [f"[{group}]\n{line}\n" for group, line in points.items()]
    (info / "entry_points.txt").write_text("\n".join(sections), "utf-8")


def install_sample(folder: Path) -> None:
    """The sample alert plugin, with its module."""
    copy(SAMPLE, folder)
    install_package(
        folder, "rota-sample-alerts", points={"rota.plugins": "sample_alerts = rota_sample_alerts:AlertPlugin"}
    )


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The folder is a place that Python imports from, for the time of the context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
