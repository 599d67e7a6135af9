"""What several commands have in common: where the settings come from."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from rota.config.load import Loaded, Sources, load
from rota.config.registry import Registries, check_names

Command = TypeVar("Command", bound=Callable[..., Any])


def config_option(command: Command) -> Command:
    """`--config FILE`, on every command that reads settings."""
    option = click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="ROTA_CONFIG",
        help="The settings file.  [default: rota.yaml, if it is there]",
    )
    return option(command)


def sources_of(config: Path | None, flags: Mapping[str, Any] | None = None) -> Sources:
    """The file, this process's environment, and flags by dotted key (None is not set)."""
    return Sources(file=config, environment=os.environ, flags=flags or {})


def load_settings(config: Path | None, flags: Mapping[str, Any] | None = None) -> Loaded:
    """The settings of this command, with every name in them known."""
    loaded = load(sources_of(config, flags))
    check_names(loaded, Registries())
    return loaded
