"""What a shell offers after TAB: click's own completion, and what click does not know.

click offers commands, options and choices. Here are added the files that an option or an argument
takes, lists of words (``--cases solo,many``), and values that are glued to their option:
``--format=json``, which bash hands over in three words, and for which click offers nothing in bash
and fish, and in zsh would put the value in the place of the option. A map is the user's own: no
device is looked for during completion.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click
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
from gpumap.report import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Items = list[CompletionItem]

# What an option takes, of one command or of all: where the words are.
WORDS = {
    "--backend": "gpumap.backends:REGISTRY",
    "--dtype": "gpumap.bench.dot:DTYPES",
    "chain --dtype": "gpumap.bench.chain:DTYPES",
    "predict --dtype": "gpumap.training.network:WIDTHS",
    "--algorithm": "gpumap.comm.algorithms:MODELS",
    "--comm": "gpumap.bench.allreduce:COMMS",
    "predict --network": "gpumap.training.network:PARAMETERS",
    "--preset": "gpumap.training.network:NAMES",
    "--rule": "gpumap.training.rules:RULES",
    "--optimizer": "gpumap.training.optimizers:OPTIMIZERS",
    "--framework": "gpumap.doctor.facts:FRAMEWORKS",
}
LISTS = ("--cases", "--algorithm", "--rule")  # that take several words, with commas between
_ALL = "all"  # of --backend, where it measures
_INSTRUCTIONS = ("source", "complete")
_FISH = r"""function %(complete_func)s
    set -lx %(complete_var)s fish_complete
    set -lx COMP_WORDS (commandline --current-process --cut-at-cursor)
    set -lx COMP_CWORD (commandline --current-token --cut-at-cursor)
    for line in (%(prog_name)s)
        set -l item (string split --max 1 , -- $line)
        set -l parts (string split \t -- $item[2])
        switch $item[1]
            case file
                for file in (__fish_complete_path $parts[1])
                    printf '%%s\n' $parts[2]$file
                end
            case '*'
                printf '%%s\n' $item[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


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


class _Completed(ShellComplete):
    """What click's classes lack, in the same way for each shell."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return what may stand in the place of the word `incomplete`."""
        option, glue, begun = _unglued(incomplete)
        args = [*args, option] if glue else args
        found = _known(self.cli, args, begun)
        if found is None:
            found = super().get_completions(args, begun)
        return [_behind(option + glue, item) for item in found]


class Bash(_Completed, BashComplete):
    """Bash ends a word at "=" (unless COMP_WORDBREAKS has none), and replaces what comes after."""

    _kept = 0  # characters of the word that bash leaves as they are

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the word at it, as they were typed."""
        args, last = super().get_completion_args()
        *whole, word = _joined([*args, last])
        self._kept = len(word) - (0 if last == "=" else len(last))
        return whole, word

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return what may stand in the place of what bash replaces."""
        found = super().get_completions(args, incomplete)
        return [i if i.type == "file" else _item(i, i.value[self._kept :]) for i in found]


class Zsh(_Completed, ZshComplete):
    """Zsh completes files from the text after the "="."""

    source_template = ZshComplete.source_template.replace(
        "_path_files -f", "compset -P '*='; _path_files -f"
    )


class Fish(_Completed, FishComplete):
    """Fish gets lines of its own: a value may have commas, a file something that stands before."""

    source_template = _FISH

    def format_completion(self, item: CompletionItem) -> str:
        """Return a line for the script above."""
        if item.type == "file":
            return f"file,{item.value}\t{item.before}"
        return super().format_completion(item)


SHELLS = {"bash": Bash, "zsh": Zsh, "fish": Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)


def _joined(words: Sequence[str]) -> Iterator[str]:
    """Yield words as they were typed: "=" belongs to both its neighbours."""
    word = words[0]
    for part, before in zip(words[1:], words, strict=False):
        if "=" not in (part, before):
            yield word
            word = ""
        word += part
    yield word


def _unglued(word: str) -> tuple[str, str, str]:
    """Return ``--option``, "=" and the value; of any other word all as the value."""
    option, glue, value = word.partition("=")
    return (option, glue, value) if glue and word.startswith("--") else ("", "", word)


def _known(group: click.Command, args: Sequence[str], begun: str) -> Items | None:
    """Return what click does not know; None where click does."""
    command = _called(group, args)
    option = _awaiting(command, args)
    if option is not None:
        return _files(option, begun) or _words(command, option, begun)
    if begun.startswith("-"):
        return None
    arguments = (param for param in command.params if isinstance(param, click.Argument))
    return next((found for param in arguments if (found := _files(param, begun))), None)


def _called(command: click.Command, args: Sequence[str]) -> click.Command:
    """Return the command that the words name."""
    context = click.Context(command)
    for word in args:
        if isinstance(command, click.Group):
            command = command.get_command(context, word) or command
    return command


def _awaiting(command: click.Command, args: Sequence[str]) -> click.Option | None:
    """Return the option whose value comes next."""
    options = (param for param in command.params if isinstance(param, click.Option))
    return next((o for o in options if args and args[-1] in o.opts and not o.is_flag), None)


def _files(param: click.Parameter, begun: str) -> Items | None:
    """Return that files are wanted, by what their path begins with."""
    if param.type.name == "file":
        return [CompletionItem(begun, type="file", before="")]
    if param.type.name == "target":
        format_, glue, path = begun.partition("=")
        known = glue and format_ in FORMATS
        before, begun = (format_ + glue, path) if known else ("", begun)
        return [CompletionItem(begun, type="file", before=before)]
    return None


def _words(command: click.Command, option: click.Option, begun: str) -> Items | None:
    """Return the words that an option takes; after a comma those that are not there yet."""
    name = max(option.opts, key=len)
    words = known(command.name or "", name)
    if words is None:
        return None
    if name == "--backend" and any(param.name == "budget" for param in command.params):
        words.append(_ALL)
    before, comma, begun = begun.rpartition(",") if name in LISTS else ("", "", begun)
    there = before.split(",")
    return [
        CompletionItem(before + comma + word)
        for word in words
        if word.startswith(begun) and word not in there
    ]


def known(command: str, option: str) -> list[str] | None:
    """Return the words that an option of a command takes; None: any."""
    from gpumap.bench.registry import commanded

    if option == "--cases":
        spec = commanded(command)
        return None if spec is None else [case.name for case in spec.cases]
    place = WORDS.get(f"{command} {option}", WORDS.get(option))
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    return list(getattr(import_module(module), attribute))


def _behind(prefix: str, item: CompletionItem) -> CompletionItem:
    """Return an item for a word that begins with `prefix`."""
    if item.type == "file":
        return CompletionItem(item.value, type="file", before=prefix + (item.before or ""))
    return _item(item, prefix + item.value)


def _item(item: CompletionItem, value: str) -> CompletionItem:
    return CompletionItem(value, item.type, item.help)
