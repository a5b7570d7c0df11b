"""Write the pages of the site into build/pages/, from which `make docs` builds it.

They are those of docs/, and what they link to outside of it. `<!-- generated: NAME -->` in a page
is replaced by what is made of the source; nothing of it is stored.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.explain import Topic

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"
sys.path.insert(0, str(ROOT))
SOURCES = ("docs/**/*", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "action.yml",
           "examples/**/*", "gpumap/published.csv",
           "gpumap/backends/fake/script.py")  # fmt: skip
_PART = re.compile(r"^<!-- generated: (.*?) -->$", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#]+)")
_CAUSES = {  # the first digit of a cause's code, and what such causes are of
    "1": "Configuration",
    "2": "Device and driver",
    "3": "Machine",
    "4": "Work",
    "5": "Frameworks",
}
_MARKUP = re.compile(r"[*_<\[\]|]")


def main() -> None:
    """Write every page anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    names = {path.relative_to(ROOT).as_posix(): path for path in sources()}
    places = {name: place(name) for name in names}
    for name, path in names.items():
        target = PAGES / places[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = page(path.read_text(encoding="utf-8"), name, places)
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, target)


def sources() -> list[Path]:
    """Return the files of the site; scripts in docs/ are not among them."""
    found = [path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file()]
    return [path for path in found if path.parent != ROOT / "docs" or path.suffix != ".py"]


def place(name: str) -> str:
    """Return where a file is on the site; a README is the index of its folder."""
    return re.sub(r"README\.md$", "index.md", name.removeprefix("docs/"))


def page(text: str, name: str, places: Mapping[str, str]) -> str:
    """Put in what is generated, and let links lead where their pages are on the site."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[1]))
        if target not in places:
            raise SystemExit(f"{name}: a link to {link[1]}, which is not on the site")
        return f"]({posixpath.relpath(places[target], posixpath.dirname(places[name]) or '.')}"

    return _LINK.sub(moved, _PART.sub(lambda part: PARTS[part[1]](), text))


def commands() -> str:
    """Return the help of every command, as `gpumap COMMAND --help` prints it."""
    from gpumap.cli import group
    from hatch_build import contexts

    parts = []
    for context in contexts(group):
        context.terminal_width = 78  # what fits into the column of a page
        parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


def causes() -> str:
    """Return the page of each cause of doctor."""
    from gpumap.doctor.diagnose import page, plain, table

    parts = []
    for number, heading in _CAUSES.items():
        parts.append(f"## GM{number}: {heading}")
        for cause in (one for one in table().values() if one.code[2] == number):
            whose = "A framework" if number == "5" else "A name"
            outcome = f"{whose} that it holds for is *{cause.rule.verdict}*."
            parts += [
                f"### {cause.code} {cause.key}",
                f"Says: {plain(cause.text)}. {outcome}",
                cause.meaning,
                f"How doctor knows: {cause.how}",
                f"Fix: {page(cause).fix}",
                f"Source: {cause.source}",
            ]
    return "\n\n".join(parts) + "\n"


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
    from gpumap.explain import read

    return _table([topic for topic in read("statuses") if topic.kind == "exit code"])


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

if __name__ == "__main__":
    main()
