"""What a shell offers after TAB: click's own completion, of words that `commands` has.

A map is the user's own: no device is looked for during completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.shell_completion import FishComplete, add_completion_class, shell_complete

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    import click

SHELLS = ("bash", "zsh", "fish")
_INSTRUCTIONS = ("source", "complete")


def complete(group: click.Group, variable: str, instruction: str) -> int:
    """Answer a shell: print what it is to run, or what it may offer.

    Raises:
        QuestionError: the instruction is none, or is for another shell.
        KeyError: the shell did not say what is typed.
    """
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what not in _INSTRUCTIONS:
        message = f'{variable} is "{instruction}", which nothing here answers'
        sources = ", ".join(f"{known}_source" for known in SHELLS)
        raise QuestionError(message, f"set it to one of {sources}, or unset it")
    return shell_complete(group, {}, "gpumap", variable, instruction)


class Fish(FishComplete):
    """click's script would end a value at its first comma."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


add_completion_class(Fish)
