"""What several commands have in common: where the settings come from."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.domain.errors import ConfigError

if TYPE_CHECKING:
    from rota.config.load import Loaded, Sources

Command = TypeVar("Command", bound=Callable[..., Any])


class WholeNumber(click.IntRange):
    """A whole number within bounds, called so."""

    name = "whole number"


def config_option(command: Command) -> Command:
    """`--config FILE`, on every command that reads settings."""
    option = click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="ROTA_CONFIG",
        help="The settings file.  [default: rota.yaml, if it is there]",
    )
    return option(command)


def set_option(command: Command) -> Command:
    """`--set KEY=VALUE`, on every command that reads settings."""
    option = click.option(
        "--set",
        "changes",
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting, such as worker.capacity=20; may be repeated.",
    )
    return option(command)


def process_options(command: Command) -> Command:
    """What every command that runs a process takes."""
    app = click.option("--app", metavar="FILE.py|MODULE", help="Where your tasks are.")
    return config_option(app(set_option(command)))


def sources_of(config: Path | None, flags: Mapping[str, Any] | None = None) -> "Sources":
    """The file, this process's environment, and flags by dotted key (None is not set)."""
    from rota.config.load import Sources

    return Sources(file=config, environment=os.environ, flags=flags or {})


def load_settings(config: Path | None, flags: Mapping[str, Any] | None = None) -> "Loaded":
    """The settings of this command, with every name in them known."""
    from rota.config.registry import Registries, load_known

    return load_known(sources_of(config, flags), Registries())


def read_changes(changes: Collection[str]) -> dict[str, str]:
    """What `--set` said."""
    pairs = [change.partition("=") for change in changes]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigError(f"--set {key}: has no value", fix=f"--set {key}=VALUE")
    return {key: value for key, _, value in pairs}
