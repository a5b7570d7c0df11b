"""The reference of all commands, made from the commands: what there is to write down, as values.

`markdown.py` makes `docs/commands.md` of it, `roff.py` the man page `docs/gpumap.1`. No command
loads this: `make docs` does, and a test holds both files to what the commands say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gpumap.cli import COMMANDS, group
from gpumap.explain.lookup import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

EXITS = of_kind("exit code")
EXAMPLES = (
    ("Is the map true on this machine?", 'gpumap check "dev0->cuda0;dev1->cuda1"'),
    ("Are two devices twice as fast as one?", "gpumap bench dot --size 1024"),
    ("What do copies cost?", "gpumap transfer-cost --sizes small,large"),
    ("Did it become slower?", "gpumap compare base.json new.json"),
)
# Beside GPUMAP_<OPTION>, which stands with each option.
VARIABLES = {
    "GPUMAP_CONTEXTS": "The map, where no argument, `--map` or `--map-file` gives one.",
    "GPUMAP_CACHE_DIR": "Where the list of OpenCL drivers with Intel's runtime from pip in it is "
    "kept, in place of the XDG cache folder.",
    "GPUMAP_FAKE": "The script of `--backend fake`: a TOML file with devices, times and faults.",
    "THEANO_FLAGS": "`contexts=` in it is the map, where nothing of gpumap's gives one.",
    "THEANORC": "The files that are read in place of `~/.theanorc`, with `:` between.",
    "NO_COLOR": "Set to anything: no colours on a terminal.",
}
FILES = {
    "gpumap.toml": "In the working folder or the nearest one above it, up to the home folder or a "
    "mount point: `map`, `backend`, `format`, `quiet`, `output` (below its folder) and `limit`. "
    "One that another user owns or can write is refused.",
    "pyproject.toml": "Its table `[tool.gpumap]` may hold `limit`; `gpumap.toml` comes first.",
    "~/.theanorc": "`contexts` in its section `[global]` is the map, where nothing else gives one.",
}
ORDER = (
    "An option comes before its variable, the variable before `gpumap.toml`, and that before the "
    "default. Every command has `-h` and `--help`."
)


@dataclass(frozen=True, slots=True)
class Option:
    """An option: how it is written, what it does, and what stands for it where it is not given."""

    terms: str  # --map MAP
    text: str
    default: str | None
    bounds: str | None
    variable: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """A command: its name behind `gpumap`, its section, its usage, what it says, its options."""

    name: str
    section: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[Option, ...]


def pages() -> Iterator[Page]:
    """Yield every command in the order of the help; commands of a group stand behind it."""
    context = group.make_context("gpumap", [], resilient_parsing=True)
    for name, (section, _, _) in COMMANDS.items():
        command = group.get_command(context, name)
        assert command is not None  # the table is where it was found
        yield from _of(command, name, section, context)


def _of(command: click.Command, name: str, section: str, parent: click.Context) -> Iterator[Page]:
    context = click.Context(command, parent, name.rpartition(" ")[2])
    options = (param for param in command.params if isinstance(param, click.Option))
    told = tuple(_option(option, context) for option in options if not option.hidden)
    usage = " ".join(("gpumap", name, *command.collect_usage_pieces(context)))
    yield Page(name, section, usage, _paragraphs(command.help or ""), told)
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None  # it was listed
            yield from _of(inner, f"{name} {word}", section, context)


def _option(option: click.Option, context: click.Context) -> Option:
    extra = option.get_help_extra(context)
    record = option.get_help_record(context)
    assert record is not None  # it is not hidden
    variable = next(iter(extra.get("envvars", ())), None)
    text = " ".join((option.help or "").split())
    return Option(record[0], text, extra.get("default"), extra.get("range"), variable)


def _paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs of a help text, each in one line."""
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())
