"""The command lines that stand in README, docs and examples, as a reader would type them."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [  # a record of a GPU is made from the JSON beside it, and is no guide
    ROOT / "README.md", ROOT / "examples" / "README.md",
    *(page for page in _DOCS if not page.with_suffix(".json").exists()),
]  # fmt: skip
SHOWN = {"text"}  # blocks in which those behind "$ " are
OTHER = {"yaml", "toml", "python", "json"}  # blocks of something else
_COMMAND = re.compile(r"(?:^|[ /(])gpumap(?: |\)|$)")


@dataclass(frozen=True)
class Block:
    """A block of a page: its language (none where it is indented), its text, what stands before."""

    page: str
    language: str
    text: str
    before: str

    @property
    def lines(self):
        whole = self.text.replace("\\\n", "").splitlines()
        typed = [line.removeprefix("$ ") for line in whole if line.startswith("$ ")]
        return typed if typed or self.language in SHOWN | OTHER else whole


def blocks(page):
    before = ""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "inline":
            before = token.content
        if token.type in ("fence", "code_block"):
            name = str(page.relative_to(ROOT))
            yield Block(name, token.info.strip(), token.content, before)


def command_lines(page):
    for block in blocks(page):
        yield from (line for line in block.lines if _COMMAND.search(line))


def listed(heading):
    """Return the items of a list in docs/commands.md: name and text."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^- `(.*?)`: (.*)", part, re.MULTILINE))
