"""Where a report goes: files and stdout, each whole, and what is said beside them on stderr."""

import os
import re

import pytest
from flat_report import loads
from scripts import script
from shell import SIMULATED

DOT = ("bench", "dot", "--size", "64", "--cases", "many", "--budget", "6s",
       "--map", "a->cuda0;b->cuda1")  # fmt: skip


def test_a_file_that_cannot_be_written_costs_no_other_result(gpumap):
    """Each such file is named; stdout and the other files have the report all the same."""
    for name in ("first", "last"):
        os.mkfifo(gpumap.folder / name)  # which no one reads
    files = ("--output=json=first", "--output=csv=r.csv", "--output=junit=last")
    answer = gpumap.fake(script())("check", "a->cuda0", *files)
    assert (answer.code, answer.out.startswith("Simulated: ")) == (2, True)
    assert (gpumap.folder / "r.csv").read_text().startswith("record,")
    assert re.findall(r"^error: .*(first|last)", answer.err, re.MULTILINE) == ["first", "last"]


def test_a_variable_names_several_files(gpumap):
    """Words, of which ":" may be a part."""
    answer = gpumap("check", "a->cpu0", "--no-open", GPUMAP_OUTPUT="json=a:b.json c.md")
    assert answer.code == 0
    assert {path.name for path in gpumap.folder.iterdir()} >= {"a:b.json", "c.md"}


def test_a_file_has_what_stdout_has_of_a_verbose_run(gpumap):
    answer = gpumap.fake(script())(*DOT, "-v", "--output", "plain=r.txt")
    assert answer.out == (gpumap.folder / "r.txt").read_text()
    assert re.search(r"trust +status$", answer.out, re.MULTILINE)  # a column of -v


def test_a_report_has_the_seed_and_the_time_of_its_run(gpumap):
    answer = gpumap.fake(script())(*DOT, "--seed", "7", "--format", "json")
    found = loads(answer.out)
    assert (answer.code, found["settings"]["seed"]) == (0, 7)
    assert found["started"] < found["ended"]


@pytest.mark.parametrize(("words", "said"), [
    (("a->cuda0;b->cuda0",), ""), (("a->cuda0;b->cuda9", "--if-absent", "skip"), ""),
    (("a->cuda0;b->cuda9",), "error in entry 2"),
])  # fmt: skip
def test_quiet_leaves_errors_alone_on_stderr(gpumap, words, said):
    """Notes, warnings and what was let pass are in the report."""
    fake = gpumap.fake(script())
    loud, quiet = (fake("check", *words, *more) for more in ((), ("--quiet",)))
    assert SIMULATED in loud.err
    assert loud.out == quiet.out
    assert quiet.err.partition(":")[0] == said
