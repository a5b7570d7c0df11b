"""The reference and the man pages, made from what the commands say: `make docs` writes them."""

import re
from pathlib import Path

import click
from click_man.core import generate_man_page

from gpumap.cli import group
from gpumap.version import __version__

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FOLDER = DOCS / "commands.md", DOCS / "man"
BEGIN, END = "<!-- made by `make docs` -->\n", "<!-- to here -->\n"
# What roff shows as another character, which no shell takes.
CHANGED = {"'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def contexts(command=group, parent=None, name="gpumap"):
    """Yield every command in the order of the help; those of a group behind it."""
    settings = command.context_settings | {"terminal_width": 100}
    context = click.Context(command, parent, name, **settings)
    yield context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            yield from contexts(command.get_command(context, word), context, word)


def reference():
    """Return `docs/commands.md` with the help of every command; the rest is written by hand."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    helps = (f"## {c.command_path}\n\n```text\n{c.get_help()}\n```\n" for c in contexts())
    return "".join((before, BEGIN, "\n", "\n".join(helps), "\n", END, rest.partition(END)[2]))


def pages():
    """Return each man page by its file."""
    found = {}
    for context in contexts():
        command = context.command
        if isinstance(command, click.Group) and not command.commands:  # loaded by name
            words = command.list_commands(context)
            command.commands = {word: command.get_command(context, word) for word in words}
        text = generate_man_page(context, version=__version__, date=" ")
        # a date would be one more thing to keep true; no hyphen comes into a name
        text = text.replace('" "', '""', 1).replace("\n", "\n.nh\n", 1)
        text = re.sub("['`^~]", lambda found: CHANGED[found[0]], text)
        found[f"{context.command_path.replace(' ', '-')}.1"] = re.sub(r"(?<!\\)-", r"\\-", text)
    return found


def listed(heading):
    """Return the items of a list in the reference: name and text."""
    part = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^- `(.*?)`: (.*)", part, re.MULTILINE))


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
