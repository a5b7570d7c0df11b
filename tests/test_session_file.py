"""Theano-MPI's session file: what it says is read, and nothing in it is ever executed."""

import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from refusals import refusal
from tables import table

from gpumap.errors import SourceError
from gpumap.session_file import Session, assignments, read

TABLES = table(__file__)


def told(text):
    return read(text, "s.cfg")


def refused(text):
    return refusal(SourceError, told, text).message


def test_the_example_of_theano_mpi():
    found = told(f"DEVICES=cpu0\n{TABLES['seed']}")  # the last one counts
    devices = "dev0->cuda0;dev1->cuda1"
    assert found == Session("BSP", "models.modelfile", "ModelClass", devices, None, None)


@pytest.mark.parametrize(("text", "said"), TABLES["said"])
def test_what_is_said_of_a_session_that_can_be_read(text, said):
    session = told(text)
    assert [part in note.message for part, note in zip(said, session.notes, strict=True)] == (
        [True] * len(said)
    )
    assert session.rule != "GOSGD" or (session.sync_type, session.strategy) == (None, None)


@pytest.mark.parametrize(("text", "problem"), TABLES["values"])
def test_a_wrong_value_is_named_with_its_line(text, problem):
    rest = "" if text.startswith("DEVICES") else "\nDEVICES=cpu0"
    assert refused(f"#\n\n{text}{rest}") == f"s.cfg, line 3: {problem}"
    assert refused("RULE=BSP") == "s.cfg: there is no DEVICES"


@pytest.mark.parametrize("text", TABLES["shell"])
def test_what_only_a_shell_could_understand(text):
    """With the line on which it begins, and its first line."""
    said = refused(f"MODELFILE=m\r\n{text}")
    begin = text.partition("\n")[0].strip()
    assert said == f's.cfg, line 2: "{begin}" is no KEY=VALUE; a cfg is read as data'


def test_quotes_keep_what_is_meant_literally():
    """As in a shell: single quotes keep all, double quotes all but what is expanded in them."""
    (found,) = assignments("K='$(touch x)`\"'\"'a;b|c'\"#d", "s.cfg")
    assert found.value == "$(touch x)`\"'a;b|c'#d"


PIECES = st.sampled_from(TABLES["pieces"])
SHELLED = st.lists(PIECES, max_size=14).map("".join)


@given(st.one_of(st.text(), SHELLED))
@example("A=1\n" * 10_000)
def test_any_text_is_read_or_refused(text):
    with suppress(SourceError):
        assert told(text).nodes


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@given(st.lists(st.sampled_from(["RULE=", "DEVICES=", "MODELFILE=a", "\n"]) | PIECES, max_size=12))
@example(["RULE=", "'a'", '"b"', "c", "#d", " #e"])
def test_a_shell_reads_the_same(pieces):
    """Whatever is accepted has no other meaning to bash; what is not, bash need not be asked."""
    try:
        found = list(assignments("".join(pieces), "s.cfg"))
    except SourceError:
        return
    assume(len({each.key for each in found}) == len(found))  # a second one changes element 0
    assume(all(each.key in ("RULE", "DEVICES", "MODELFILE") for each in found))
    done = subprocess.run(
        ["bash", "-c", TABLES["bash"]], input="".join(pieces) + "\n", env={}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    lines, read_back = iter(done.stdout.splitlines()), {}
    for line in lines:
        key, count = line.split()
        read_back[key] = [next(lines) for _ in range(int(count))]
    assert read_back == {each.key: [each.value] for each in found}
