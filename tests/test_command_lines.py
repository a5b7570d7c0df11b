"""Every command line in README, docs and examples is run, as it stands there.

What is measured has GPUMAP_BUDGET for its budget, which changes no line. The table says of every
line what it takes, how it may end, and why it is not run where it is not: none is left out.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import pytest
from shell import BIN
from tables import table
from written import PAGES, ROOT, blocks, command_lines

from gpumap import cli

BUDGET = "0.3s"
SCRIPTED = {  # reports that lines read are of scripted devices: whole, whatever else runs here
    "GPUMAP_FAKE": str(ROOT / "examples" / "gpus.toml"),
    "GPUMAP_BACKEND": "fake",
    "GPUMAP_BUDGET": "8s",
}
IN_ORDER = ROOT / "docs" / "tutorial.md"  # tests/test_tutorial.py runs it from its begin to its end
SEPARATORS = {"&&", "||", ";", "|", "&"}


TABLE = table(__file__, "command_lines")
SHOWN = {  # tests/test_readme.py runs these, and compares what they print
    line for page in PAGES for block in blocks(page) if block.language == "console"
    for line in block.lines
}  # fmt: skip
WRITTEN = {line for page in PAGES if page != IN_ORDER for line in command_lines(page)}
RUN = [line for line, how in TABLE.items() if "parsed" not in how]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


def prepared(gpumap, reports, files):
    """Return a shell in a folder with what a line names, and with what it takes to run here."""
    gpumap.env.update(
        GPUMAP_BUDGET=BUDGET,
        GITHUB_STEP_SUMMARY=str(gpumap.folder / "summary.md"),
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
    )
    for name in files:
        if name == "examples":
            (gpumap.folder / name).symlink_to(ROOT / name)
            continue
        if not (reports / name).exists():
            made = ("bench", "dot", "--cases", "many", "--output", str(reports / name))
            assert gpumap(*made, **SCRIPTED).code == 0
        shutil.copy(reports / name, gpumap.folder)
    return gpumap


def test_every_line_has_its_place_in_the_table():
    """None is left out, none stands nowhere; what may not end well, or is not run, says why."""
    languages = {block.language for page in PAGES for block in blocks(page)}
    assert set(TABLE) == WRITTEN - SHOWN
    assert languages <= {"", "console", "sh", "text", "yaml", "toml", "python", "json"}
    known = {"codes", "why", "files", "dry", "parsed"}
    assert [how for how in TABLE.values() if how.keys() - known] == []
    assert [how for how in TABLE.values() if "codes" in how and "why" not in how] == []


@pytest.mark.parametrize("line", RUN)
def test_a_line_runs(gpumap, reports, line):
    how = TABLE[line]
    if line.startswith("mpirun") and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (make system installs it); the line is parsed")
    shell = prepared(gpumap, reports, how.get("files", ()))
    env = {"GPUMAP_DRY_RUN": "1"} if "dry" in how else {}
    answer = shell.run(["bash", "-c", line.partition("; echo")[0]], **env)
    assert "Traceback" not in answer.err
    assert answer.code in how.get("codes", [0]), answer.err


@pytest.mark.parametrize("line", TABLE)
def test_a_line_parses(line):
    """Every call of gpumap in it, those too that are run: its options are there, and take that."""
    for words in calls(line):
        context = cli.group.make_context("gpumap", list(words), resilient_parsing=True)
        name, command, rest = cli.group.resolve_command(context, list(words))
        while isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, rest)
        assert command.make_context(name, list(rest), resilient_parsing=True).params


def calls(line):
    """Yield what is gpumap's own behind each `gpumap` of a line: of `run` not what it starts."""
    if "_GPUMAP_COMPLETE=" in line:  # only completion is asked for
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    words = []
    for word in [*lexer, ";"]:
        if word not in SEPARATORS:
            words.append(word)
            continue
        names = [Path(each).name for each in words]
        if "gpumap" in names:
            own = words[names.index("gpumap") + 1 :]
            yield own[: own.index("--")] if "--" in own else own
        words = []


@pytest.mark.parametrize(("page", "files", "options", "said"), [
    ("json", ("report.json",), ("-W", "ignore::ResourceWarning"), r"(?s)ok 0\n.*dot\.many\["),
    ("coming-from", (), (), "(?s).*dev1"), ("python", (), (), "(?s).*dev1"),
])  # fmt: skip
def test_the_programs_of_a_page_run(gpumap, reports, page, files, options, said):
    text = "".join(b.text for b in blocks(ROOT / "docs" / f"{page}.md") if b.language == "python")
    shell = prepared(gpumap, reports, files)
    answer = shell.run([str(BIN / "python"), *options, "-c", text])
    assert (answer.code, answer.err) == (0, "")
    assert re.match(said, answer.out)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_runs_as_it_is_and_says_how(gpumap, program):
    """Without gpumap trace, and without a map: on the default one. README names it too."""
    answer, text = gpumap.run([sys.executable, str(program), "64"]), program.read_text()
    assert (answer.code, answer.err) == (0, "")
    assert answer.out
    assert re.search("gpumap (trace --map|bench train|scale|run --cfg)", text)
    assert set(re.findall(r"examples/[a-z_]+\.py", text)) == {f"examples/{program.name}"}
    assert program.name in (ROOT / "examples" / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_to_a_file_leads_to_one(page):
    """Inside of the repository; an anchor is that of a heading there."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path)) if path else page
        assert file.exists(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else ()
        named = {re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-") for text in headings}
        assert not anchor or anchor in named, target
