"""Man pages for the wheel, from the help of every command: nothing of them is stored."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click_man.core import generate_man_page
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterator

# What roff shows as another character, which no shell takes.
CHANGED = {"'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def contexts(
    command: click.Command, parent: click.Context | None = None, name: str = "gpumap"
) -> Iterator[click.Context]:
    """Yield every command in the order of the help; those of a group after it."""
    settings: Any = command.context_settings | {"terminal_width": 100}
    context = click.Context(command, parent, name, **settings)
    yield context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            if inner is not None:
                yield from contexts(inner, context, word)


def pages() -> dict[str, str]:
    """Return each man page by its file name."""
    from gpumap.cli import group
    from gpumap.version import __version__

    made = {}
    for context in contexts(group):
        command = context.command
        if isinstance(command, click.Group):  # its commands are loaded by name
            names = command.list_commands(context)
            command.commands = {name: command.get_command(context, name) for name in names}
        text = generate_man_page(context, version=__version__, date=" ")
        # no date, so that two builds are equal; no hyphen comes into a name
        text = text.replace('"1" " "', '"1" ""', 1).replace("\n", "\n.nh\n", 1)
        text = re.sub("['`^~]", lambda match: CHANGED[match[0]], text)
        made[f"{context.command_path.replace(' ', '-')}.1"] = re.sub(r"(?<!\\)-", r"\\-", text)
    return made


class ManPages(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's hook: write the pages into a folder, and hand it to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add `share/man/man1` to a wheel that is built (an editable install has none)."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        self._folder = tempfile.TemporaryDirectory(prefix="gpumap-man-")
        for name, text in pages().items():
            (Path(self._folder.name) / name).write_text(text, encoding="utf-8")
        build_data["shared_data"][self._folder.name] = "share/man/man1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()
