"""Words that are not known: what they may have meant, and names that others use."""

import re
import shlex

import pytest
from commands.scripts import asked, report, script
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from gpumap.bench.dot import DTYPES
from gpumap.text import ALIASES, fix, meant, nearest

KNOWN = ("solo", "one", "many", "float32", "Résumé")
LINK = ("--latency", "1us", "--bandwidth", "1GB/s")
MAP = "a->cuda0;b->cuda1"
MISSPELLED = table(__file__, "spelling")


@pytest.mark.parametrize(("line", "meant_"), MISSPELLED.items())
def test_a_misspelled_word_of_a_closed_list_is_offered_as_it_is_spelled(gpumap, line, meant_):
    answer = gpumap.fake(script())(*shlex.split(line), GPUMAP_CONTEXTS=MAP)
    assert answer.code == 2
    assert re.findall(r"did you mean ([^?]+)\?", answer.err) == [meant_]


@pytest.mark.parametrize("words", [
    "frobnicate", "check --bogus", "check --format xyz", "bench dot --cases 7", "check --output x",
])  # fmt: skip
def test_nothing_is_offered_for_a_word_that_is_like_none(gpumap, words):
    answer = gpumap.fake(script())(*words.split(), MAP)
    assert (answer.code, "did you mean" in answer.err) == (2, False)


@given(st.text(max_size=200))
def test_what_is_offered_is_known(word):
    """Whatever was typed; a known word is its own nearest one, in whatever case."""
    assert set(nearest(word, KNOWN, 3)) <= set(KNOWN)
    assert all(nearest(name.swapcase(), KNOWN) == (name,) for name in KNOWN)
    assert fix(word, (), "else") == "else"


@pytest.mark.parametrize(
    ("name", "dtype"), [*ALIASES.items(), ("FP16", "float16"), ("Double", "float64")]
)
def test_a_type_has_the_names_that_others_give_it(gpumap, name, dtype):
    words = ("bench", "dot", MAP, "--size", "64", "--dtype", name, "--dry-run", "--json")
    found = report(gpumap.fake(script())(*words))
    assert dtype in DTYPES
    assert {row["params"]["dtype"] for row in asked(found)} == {dtype}


@pytest.mark.parametrize("words", [
    ("bench", "chain", MAP, "--dtype", "half", "--dry-run"),
    ("predict", "--network", "vgg16", "--dtype", "double", *LINK),
    ("bench", "allreduce", MAP, "--wire", "bf16", "--dry-run"),
    ("bench", "dot", MAP, "--dtype", "half,fp32", "--dry-run"),
])  # fmt: skip
def test_a_name_of_a_type_that_is_not_taken_is_refused(gpumap, words):
    """An option that takes some types has the names of those alone, and takes one."""
    assert gpumap.fake(script())(*words).code == 2


def test_a_known_word_is_no_other_name():
    """A list may have a word of its own that is another's name for something else."""
    assert meant("half", ("half", "float16")) == "half"
    assert meant("half", ("whole",)) == "half"
