"""Words that are not known: what they may have meant, and names that others use."""

import re

import pytest
from commands.scripts import asked, report, script
from hypothesis import given
from hypothesis import strategies as st

from gpumap.bench.dot import DTYPES
from gpumap.spelling import ALIASES, fix, meant, nearest

KNOWN = ("solo", "one", "many", "float32", "Résumé")
LINK = ("--latency", "1us", "--bandwidth", "1GB/s")
MAP = "a->cuda0;b->cuda1"
MISSPELLED = [
    ("devcies", "devices"), ("bench dto", "dot"), ("dot", "bench dot"), ("help chek", "check"),
    ("check --fromat json", "--format"), ("check --Quiet", "--quiet"),
    ("check --format jason", "json"), ("check --output jsn=x", "json"),
    ("check --output x.jso", ".json"), ("check --backend cpy", "cupy"), ("completion bsh", "bash"),
    ("bench dot --if-absent skp", "skip"), ("bench dot --dtype flaot32", "float32"),
    ("bench dot --cases mnay", "many"), ("bench dot --limit dot.mny.speedup>=1", "many"),
    ("bench chain --cases solo,fusd", "fused"),
    ("bench allreduce --algorithm rign", "ring"), ("bench allreduce --wire flot16", "float16"),
    ("bench allreduce --sizes smal", "small"), ("bench allreduce --comm mpii", "mpi"),
    ("bench train --preset mlp-smal", "mlp-small"), ("bench train --rule bsb", "bsp"),
    ("bench train --optimizer adm", "adam"), ("bench train --cases stpe", "step"),
    ("transfer-cost --sizes lagre", "large"), ("transfer-cost --cases h2d,d2", "d2h"),
    (("predict", "--network", "vgg61", *LINK), "vgg16"),
    (("predict", "--from", "theano-mpi", "--rows", "AlexNet-128"), "AlexNet-128b"),
    ("explain unstabel", "unstable"), ("run --launcher mip a->cpu0 -- true", "mpi"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "meant_"), MISSPELLED, ids=str)
def test_a_misspelled_word_of_a_closed_list_is_offered_as_it_is_spelled(gpumap, words, meant_):
    words = words.split() if isinstance(words, str) else words
    answer = gpumap.fake(script())(*words, GPUMAP_CONTEXTS=MAP)
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
