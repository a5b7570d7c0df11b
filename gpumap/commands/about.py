"""`gpumap help`, `version` and `completion`: what other programs have as commands."""

from __future__ import annotations

import click

from gpumap.completion import SHELLS, complete
from gpumap.version import __version__

_COMPLETE = "_GPUMAP_COMPLETE"


def _named(context: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of a command by its words.

    Raises:
        UsageError: there is none.
    """
    context = context.find_root()
    for word in words:
        if not isinstance(context.command, click.Group):
            context.fail(f"gpumap {context.info_name} has no commands")
        name, command, _ = context.command.resolve_command(context, [word])
        assert command is not None  # else it has failed
        context = click.Context(command, context, name)
    return context


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command: gpumap help bench dot."""
    click.echo(_named(context, words).get_help())


@click.command()
def version() -> None:
    """Show the version."""
    click.echo(f"gpumap {__version__}")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes gpumap's command lines.

    SHELL is bash, zsh or fish. In ~/.bashrc: eval "$(gpumap completion bash)". In ~/.zshrc, below
    compinit: eval "$(gpumap completion zsh)". In ~/.config/fish/config.fish: gpumap completion fish
    | source.
    """
    complete(context.find_root().command, _COMPLETE, f"{shell}_source")  # type: ignore[arg-type]
