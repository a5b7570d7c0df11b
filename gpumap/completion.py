"""What a shell offers after TAB: click's own completion, and values that are glued to an option.

A type of `commands.option_types` says what its values are. click offers nothing, or a value in the
place of the option, behind ``--format=``: bash hands that over in three words, zsh and fish in one.
A map is the user's own: no device is looked for during completion.
"""

from __future__ import annotations

import re
from glob import escape, glob
from shlex import quote
from typing import TYPE_CHECKING

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    import click

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


class _Glued(ShellComplete):
    """The same for each shell: ``--option=value`` is one word, and so is what is offered for it."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what may stand in the place of the word `incomplete`."""
        option, glue, value = incomplete.partition("=")
        if not (glue and option.startswith("--")):
            return super().get_completions(args, incomplete)
        found = super().get_completions([*args, option], value)
        return [CompletionItem(f"{option}={each}") for item in found for each in _values(item)]


def _values(item: CompletionItem) -> list[str]:
    """Return what an item stands for; the files themselves: a shell looks for whole words."""
    return files(item.value) if item.type == "file" else [item.value]


def files(begun: str) -> list[str]:
    """Return the files whose paths begin so, and are safe to paste: bash puts them in unquoted."""
    found = sorted(glob(f"{escape(begun)}*"))  # noqa: PTH207 - as it was typed
    return [path for path in found if quote(path) == path]


class Bash(_Glued, BashComplete):
    """Bash ends a word at "=" and at "@" (unless COMP_WORDBREAKS has none).

    It replaces what comes after the "=", and from an "@" on that begins a word or a value.
    """

    _kept = 0  # characters of the word that bash leaves as they are

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the word at it, as they were typed."""
        args, last = super().get_completion_args()
        text = "\n".join([*args, last]).replace("\n=", "=").replace("=\n", "=")
        *whole, word = re.sub("(?m)(^|=)@\n", r"\1@", text).split("\n")
        before = word.removesuffix(last.removeprefix("="))
        is_file = before.rpartition("=")[2] == "@"
        self._kept = len(before) - (1 if is_file else 0)
        return whole, word

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what may stand in the place of what bash replaces."""
        found = super().get_completions(args, incomplete)
        return [CompletionItem(each.value[self._kept :], each.type) for each in found]


class Zsh(_Glued, ZshComplete):
    """As click has it."""


class Fish(_Glued, FishComplete):
    """click's script would end a value at its first comma."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


SHELLS = {"bash": Bash, "zsh": Zsh, "fish": Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)
