"""Hook of mkdocs: the parts of pages that are made of the source, and the pages outside of docs/.

`<!-- generated: NAME -->` in a page is replaced when the site is built; nothing of it is stored.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

    from gpumap.explain import Topic

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "action.yml", "examples/**/*",
           "gpumap/training/published.csv", "gpumap/backends/fake/script.py")  # fmt: skip
_PART = re.compile(r"^<!-- generated: (.*?) -->$", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#]+)")
_MARKUP = re.compile(r"[*_<\[\]|]")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to, at their own paths."""
    for path in (path for pattern in OUTSIDE for path in ROOT.glob(pattern) if path.is_file()):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:  # mkdocs calls it by these names
    """Put in what is generated, and let links lead where their pages are on the site."""
    del config
    made = _PART.sub(lambda part: PARTS[part[1]](), markdown)
    uri = page.file.src_uri
    inside = (Path(page.file.abs_src_path or "").parent / "x").is_relative_to(ROOT / "docs")
    folder = posixpath.dirname(f"docs/{uri}" if inside else uri)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1])).removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            return link[0]  # the strict build names it
        return f"]({posixpath.relpath(target, posixpath.dirname(uri) or '.')}"

    return _LINK.sub(moved, made)


def commands() -> str:
    """Return the help of every command, as `gpumap help COMMAND` prints it."""
    from gpumap.cli import group
    from hatch_build import contexts

    parts = []
    for context in contexts(group):
        context.terminal_width = 78  # what fits into the column of a page
        parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


def causes() -> str:
    """Return the page of each cause of doctor."""
    from gpumap.doctor.diagnose import document

    return document()


def words() -> str:
    """Return every topic of `gpumap explain` but doctor's causes, by kind."""
    from gpumap.explain import KINDS, every

    topics = [topic for topic in every() if topic.kind != "exit code"]
    kinds = [kind for kind in ("concept", *KINDS) if any(topic.kind == kind for topic in topics)]
    parts = (
        f"## {KINDS[kind]}\n\n{_table(topic for topic in topics if topic.kind == kind)}"
        for kind in dict.fromkeys(kinds)
    )
    return "\n\n".join(parts)


def exit_codes() -> str:
    """Return the topics of the exit codes."""
    from gpumap.explain import of_kind

    return _table(of_kind("exit code"))


def _table(topics: Iterable[Topic]) -> str:
    rows = (
        f"| `{topic.name}` | **{_escaped(topic.summary)}**"
        f"{f' {_escaped(topic.text)}' if topic.text else ''}"
        f"{f' *Fix:* {_escaped(topic.fix)}' if topic.fix else ''} |"
        for topic in topics
    )
    return "\n".join(("| word | meaning |", "| --- | --- |", *rows))


def _escaped(text: str) -> str:
    """Return a text as Markdown; what is in backticks is code already."""
    pieces = text.strip().split("`")
    pieces[::2] = [_MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def keys(name: str | None = None) -> str:
    """Return the keys of a report, or of one of the objects in it, by the published schema."""
    command = [sys.executable, "-m", "gpumap", "report", "--schema"]
    schema: Any = json.loads(subprocess.check_output(command, cwd=ROOT))  # noqa: S603 - this gpumap
    properties = (schema["$defs"][name] if name else schema)["properties"]
    rows = (f"| `{key}` | {_escaped(each['description'])} |" for key, each in properties.items())
    return "\n".join(("| key | what it is |", "| --- | --- |", *rows))


PARTS = {
    "commands": commands,
    "causes": causes,
    "words": words,
    "exit codes": exit_codes,
    "keys of a report": keys,
    "keys of a row": lambda: keys("Measurement"),
    "keys of a case": lambda: keys("Case"),
    "keys of samples": lambda: keys("Samples"),
}
