"""`gpumap help`, `version` and `completion`: what other programs have as commands."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

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
        if command is None:  # a shell completes: else it has failed
            context.fail(f"No such command '{word}'.")
        context = click.Context(command, context, name)
    return context


def _commands(ctx: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the commands that begin so, for a shell."""
    try:
        context = _named(ctx, ctx.params.get("words") or ())
    except click.UsageError:
        return []
    group = context.command
    every = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in every if name.startswith(begun)]


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_commands)
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
