"""The reference and the man page say what the commands say, and are read back as that."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from gpumap import cli
from gpumap.manual import FILES, VARIABLES, markdown, pages, roff

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "gpumap.1"
PAGES = list(pages())
OPTIONS = [(page, option) for page in PAGES for option in page.options]
# What mandoc says of a page that is well made: matters of taste, and the date that it has not.
HOSTILE = [
    ".TH x",
    "'br",
    r"\fBbold\fR \n \\ \*(x",
    '"quoted" -- --option a-b',
    "^hat~tilde`grave'quote",
    "naïve → ☃",
    "...",
]


def program(name):
    """Return a program that reads man pages, or skip with the reason."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (make system installs it)")
    return path


def read(text, tool="groff"):
    """Return a man page as a reader has it, without its blanks; nothing may be wrong with it."""
    command = [program(tool), "-man", "-Tutf8"] if tool == "mandoc" else [
        program(tool), "-man", "-ww", "-Tutf8", "-P-cbou"
    ]  # fmt: skip
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return _bare(re.sub(r".\x08", "", done.stdout))  # mandoc's bold


def _bare(text):
    return "".join(text.split())


# --- both


@pytest.mark.parametrize(
    ("name", "made"), [("commands.md", markdown.document), ("gpumap.1", roff.document)]
)
def test_what_is_stored_is_made_from_the_commands(name, made):
    """`make docs` writes them."""
    assert made() == (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_command_has_a_page_and_every_option_a_text():
    """In the order of the help, and those of a group behind it."""
    outer = [page.name for page in PAGES if " " not in page.name]
    inner = [page.name for page in PAGES if page.name.startswith("bench ")]

    assert list(cli.COMMANDS) == outer
    assert [f"bench {name}" for name in sorted(cli.group.get_command(None, "bench").commands)] == (
        inner
    )
    assert [option.terms for _, option in OPTIONS if not option.text] == []


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_is_one_that_gpumap_reads(variable):
    """Its name stands in the source, beside the manual."""
    sources = (path for path in (ROOT / "gpumap").rglob("*.py") if "manual" not in path.parts)

    assert any(f'"{variable}"' in path.read_text() for path in sources)


def test_the_files_are_those_that_set_something():
    """Their keys are those that the command line takes from them."""
    assert set(re.findall("`(.*?)`", FILES["gpumap.toml"])) == set(cli._CONFIG)
    assert set(cli._PROJECT) < set(re.findall("`(.*?)`", FILES["pyproject.toml"]))


# --- Markdown


def test_the_reference_is_read_back_as_the_commands_say_it():
    """Each option is an item: its form as code, and behind it its text, with nothing lost."""
    tokens = MarkdownIt().parse(markdown.document())
    items = {
        (inline.children[0].content, "".join(child.content for child in inline.children[1:]))
        for inline in tokens
        if inline.type == "inline" and inline.children[0].type == "code_inline"
    }

    missing = [
        (page.name, option.terms)
        for page, option in OPTIONS
        if not any(
            option.terms == terms and text.startswith(f": {option.text.replace('`', '')}")
            for terms, text in items
        )
    ]
    assert missing == []


# --- the man page


@pytest.mark.parametrize("tool", ["groff", "mandoc"])
def test_the_man_page_is_read_back_as_the_commands_say_it(tool):
    """Every option with its text, by both readers, and no warning of theirs."""
    shown = read(STORED.read_text(), tool)

    missing = [
        (page.name, option.terms)
        for page, option in OPTIONS
        if _bare(option.terms + option.text.replace("`", "")) not in shown
    ]
    assert missing == []


@pytest.mark.parametrize("tool", ["groff", "mandoc"])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_in_the_man_page_is_shown_as_it_is(text, tool):
    """No text is a request, and each character is the one that it is: "-" is what a shell takes."""
    page = f'.TH X 1 "" "" ""\n.SH NAME\nx\n.PP\n{roff.escaped(text)}\n'

    assert _bare(text) in read(page, tool)
