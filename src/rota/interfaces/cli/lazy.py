"""A group whose commands are imported when they are needed: `rota version` should not wait for a database driver."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword

import click


class LazyGroup(click.Group):
    """Knows its commands by name, and from which module each comes."""

    def __init__(self, *args: object, places: Mapping[str, str] | None = None, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type] # handed on as they came
        self.places = dict(places or {})  # name → module, in which the command has the name too

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self.places:
            module = import_module(self.places[cmd_name])
            name = cmd_name.replace("-", "_")
            self.add_command(getattr(module, f"{name}_" if iskeyword(name) else name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and (near := get_close_matches(name, self.list_commands(ctx), n=1)):
            raise click.UsageError(f"No such command {name!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)
