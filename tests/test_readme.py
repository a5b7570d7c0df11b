"""What README, guides and the index of records show and list is what there is."""

import re
from importlib.util import find_spec

import pytest
from golden import SLOW
from surface import commands
from tables import table
from written import PAGES, ROOT, blocks

from gpumap import cli
from gpumap.errors import Exit

MEASURED = ROOT / "docs" / "measured"
OTHERS = table(__file__)["others"]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [block for page in PAGES for block in blocks(page) if block.language == "console"]
LONGEST = 180  # lines of README, of at most WIDEST columns each: the rest is in the guides
WIDEST = 120


def shown(block):
    """Yield each command of a block with its exports, and the pattern of its text (`...`: any)."""
    exports = ""
    for example in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, text = example.partition("\n")
        if command.startswith("export "):
            exports += f"{command}\n"
            continue
        pieces = re.split(r"^\.\.\.\n", text, flags=re.MULTILINE)
        yield exports + command, r"(?:.*\n)*".join(map(re.escape, pieces))


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"{block.page}:{block.lines[0]}")
def test_an_example_prints_what_its_page_shows(gpumap, block):
    """Both streams of each command, as a terminal has them, in one folder."""
    for name in ("torch", "jax"):
        if f"--backend {name}" in block.text and find_spec(name) is None:
            pytest.skip(f"{name}: not installed")
    (gpumap.folder / "examples").symlink_to(ROOT / "examples")
    for command, pattern in shown(block):
        both = f"{{ {command}\n}} 2>&1"
        room = {"GPUMAP_TIMEOUT": "90s"} if "gpumap doctor" in command else {}  # on a busy machine
        answer = gpumap.run(["bash", "-c", both], **room)
        found = re.sub(SLOW, "", answer.out, flags=re.MULTILINE)
        assert re.fullmatch(pattern, found), answer


def test_readme_is_short():
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert len(TEXT.splitlines()) <= LONGEST
    assert [line for line in prose.splitlines() if len(line) > WIDEST] == []


def test_every_command_and_exit_code_is_in_readme():
    table = TEXT[TEXT.index("| exit |") :].partition("\n\n")[0]
    assert [name for name in cli.COMMANDS if f"gpumap {name}" not in TEXT] == []
    assert [code for code in Exit if not re.search(rf"\b{code}\b", table)] == []


def test_every_option_in_readme_exists():
    known = {"--version", "--help", *OTHERS}
    for _, command in commands():
        known |= {text for p in command.params for text in (*p.opts, *p.secondary_opts)}
    for page in (page for page in PAGES if page.parent != MEASURED):
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))
        assert used - known == set(), page


def test_every_record_is_in_the_index():
    """By its name without a suffix; scripts and commands are on the architecture page."""
    index = (MEASURED / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\) \|", index, re.MULTILINE)
    assert [page for _, page in rows] == [f"{name}.md" for name, _ in rows]
    assert {name for name, _ in rows} | {"README"} == {file.stem for file in MEASURED.iterdir()}
    from benchmarks.imports import COMMANDS

    files = (ROOT / "benchmarks").glob("*.py")
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = text[text.index("`benchmarks/` holds") : text.index("## What each command loads")]
    table = text[text.index("| command | modules |") :]
    assert set(re.findall(r"`(\w+\.py)`", listed)) == {
        file.name for file in files if "__main__" in file.read_text()
    }
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(COMMANDS)
