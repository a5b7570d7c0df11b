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
from gpumap.session_file import Assignment, Node, Session, assignments, is_here, read

TABLES = table(__file__)
HERE = "this.cluster"


def told(text):
    return read(text, "s.cfg", HERE)


def refused(text):
    return refusal(SourceError, told, text).message


def test_the_example_of_theano_mpi():
    node = Node("localhost", ("cuda0", "cuda1"), here=True)
    assert told(f"DEVICES=cpu0\n{TABLES['seed']}").nodes == (node,)  # the last one counts
    assert told(TABLES["seed"]) == Session(
        "BSP", "models.modelfile", "ModelClass", (node,), None, None
    )
    assert node.map == "dev0->cuda0;dev1->cuda1"


def test_devices_of_a_host_are_one_list():
    """However many words name it: a rank's place among those of its host is its entry."""
    text = "DEVICES=(b:cuda0 cpu0 B:cuda1 localhost:cpu1 this:cpu2 this.cluster:cpu3)"
    b, here = told(text).nodes
    assert b == Node("b", ("cuda0", "cuda1"), here=False)
    assert here == Node("localhost", ("cpu0", "cpu1", "cpu2", "cpu3"), here=True)


@pytest.mark.parametrize(("word", "devices"), TABLES["a_colon_of_a_device_names_no_host"])
def test_a_colon_of_a_device_names_no_host(word, devices):
    assert told(f'DEVICES="{word}"').nodes == (Node("localhost", tuple(devices), here=True),)
    assert told(f'DEVICES=("n1:{word}")').nodes == (Node("n1", tuple(devices), here=False),)


@pytest.mark.parametrize(("host", "machine", "here"), TABLES["hosts"])
def test_which_host_is_this_machine(host, machine, here):
    assert is_here(host, machine) == here


def test_an_array_has_the_line_on_which_it_begins():
    """Messages about a value name that of its key."""
    text = "RULE=BSP\n\nDEVICES=(\n cpu0 # one\n cpu1\n)\nX=1"
    assert list(assignments(text, "s.cfg")) == [
        Assignment("RULE", ("BSP",), 1),
        Assignment("DEVICES", ("cpu0", "cpu1"), 3, is_array=True),
        Assignment("X", ("1",), 7),
    ]


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
    assert found.words == ("$(touch x)`\"'a;b|c'#d",)


PIECES = st.sampled_from(
    ["RULE", "DEVICES", "MODELFILE", "=", "=(", ")", " ", "\n", "\t", "'", '"', "#", "export ", "a",
     "cuda0", "$", "$(touch x)", "`", "\\", ";", "&", "|", "<", ">", "{a,b}", "~", "*", "!", "[0]=",
     "+=", "=~", "%", "^", "@", ":", ",", "-"]
)  # fmt: skip
SHELLED = st.lists(PIECES, max_size=14).map("".join)


@given(st.one_of(st.text(), SHELLED))
@example("DEVICES=(" * 1000)
@example("A=1\n" * 10_000)
def test_any_text_is_read_or_refused(text):
    with suppress(SourceError):
        assert told(text).nodes


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@given(st.lists(st.sampled_from(["RULE=", "DEVICES=(", "MODELFILE=a", "\n"]) | PIECES, max_size=12))
@example(["RULE=", "'a'", '"b"', "c", "#d", " #e"])
@example(["export ", "DEVICES=(", "a", "#b", " #)", "\n", "'c'", "\t", ")", " "])
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
    assert read_back == {each.key: list(each.words) for each in found}
