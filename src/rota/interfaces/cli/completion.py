"""`rota completion`: what a shell needs to complete our commands."""

import click

HOW = {
    "bash": "add to ~/.bashrc:  source <(rota completion bash)",
    "zsh": "add to ~/.zshrc:  source <(rota completion zsh)",
    "fish": "run:  rota completion fish > ~/.config/fish/completions/rota.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from rota.interfaces.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    # The bash of click asks the installed bash for its version; the script itself needs none.
    click.echo(kind.source_template % kind(cli, {}, "rota", "_ROTA_COMPLETE").source_vars())
