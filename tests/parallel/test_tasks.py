"""A class of one's own is trained like a network of gpumap's; what is wrong with one is said."""

import sys
from itertools import count
from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import pytest
from refusals import refusal
from sessions import got, opened
from tables import tables

from gpumap.errors import Exit, QuestionError
from gpumap.parallel.network import Layer, Network
from gpumap.parallel.tasks import Layers, Own

TABLES = tables(__file__)

FIX = "a network of one's own has parameters, batch and gradients: see README"
NUMBER = count()
ROUNDING = 1e-5  # of a gradient of these few examples, by its length
LAYERS = Layers(Network("same", 256, (Layer(1, "sigmoid"),)))
EXAMPLES = 12


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return what writes a module into the working directory, and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def write(source):
        name = f"own_{next(NUMBER)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.fixture
def own(module, monkeypatch):
    """The network of examples/, as someone writes it who has never seen gpumap."""
    module("")  # what it loads is forgotten
    monkeypatch.chdir(Path(__file__).parents[2] / "examples")
    return Own("own_network:Logistic")


@pytest.fixture(scope="module")
def sessions():
    with opened("numpy", "numpy") as both:
        yield both


def far(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_a_class_has_as_many_parameters_as_its_arrays(own):
    """What nobody can know of a class is not told: its operations, and its loss."""
    arrays = own.made().parameters
    flat = own.initial(1)
    assert own.parameters == LAYERS.parameters == flat.size
    for array, slot in zip(arrays, own.slots(), strict=True):
        assert flat[slot].tolist() == array.reshape(-1).tolist()
    assert own.loss(flat, *own.data(100, 1).batch(np.arange(3))) is None
    assert (own.operations(8), own.memory(8)) == (0, 2 * 4 * own.parameters)


def test_a_class_has_the_gradient_of_the_same_network_of_layers(own, sessions):
    x, y = own.data(100, 1).batch(np.arange(EXAMPLES))
    model = own.model(sessions[0], EXAMPLES)
    for parameters in (own.initial(1), LAYERS.initial(2)):
        wanted = LAYERS.gradient(parameters.astype(np.float64), x, y[:, None], 1 / EXAMPLES)
        model.put(parameters)
        model.load(x, y)
        model.compute(1 / EXAMPLES)
        assert far(own.gradient(parameters, x, y, 1 / EXAMPLES), wanted) < ROUNDING
        assert far(got(model.gradient), wanted) < ROUNDING
        assert got(model.weights).tobytes() == parameters.tobytes()


def test_parameters_may_lie_in_any_way(module, sessions):
    """In Fortran's order, with gaps, with no dimension: by what they hold they are in C order."""
    own = Own(module_class(module, """
        def __init__(self):
            order = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
            gaps = np.arange(6, 12, dtype=np.float32).repeat(2)[::2]
            self.parameters = [order, gaps, np.full((), 12, np.float32)]

        def gradients(self, x, y, share):
            return [array.astype(np.float64) for array in self.parameters]
        """))  # fmt: skip
    model = own.model(sessions[0], 1)
    model.put(own.initial(1)[::-1].copy())
    model.load([0], [0])
    model.compute(1.0)
    assert own.initial(1).tolist() == list(range(13))
    assert got(model.gradient).tolist() == list(range(13))[::-1]


def test_parameters_may_be_other_arrays_later(module, sessions):
    own = Own(module_class(module, """
        def gradients(self, x, y, share):
            self.parameters = [array + 100 for array in self.parameters]
            return [array - 100 for array in self.parameters]
        """))  # fmt: skip
    model = own.model(sessions[0], 1)
    model.load([0], [0])
    for value in (1.0, 2.0):
        model.put(np.full(8, value, np.float32))
        model.compute(1.0)
        assert got(model.gradient).tolist() == [value] * 8


def test_a_gradient_may_be_of_another_float_or_a_list(module, sessions):
    text = module_class(module, """
        def gradients(self, x, y, share):
            return [[[0.5, 0.5, 0.5]] * 2, np.full(2, 0.25, np.float16)]
        """)  # fmt: skip
    found = Own(text).gradient(Own(text).initial(1), [0], [0], 1.0)
    assert (found.dtype, found.tolist()) == (np.float32, [0.5] * 6 + [0.25] * 2)
    used(text, sessions[0])


def test_each_worker_has_an_object_of_its_own(own, sessions):
    first, second = (own.model(session, EXAMPLES) for session in sessions)
    x, y = own.data(100, 1).batch(np.arange(4))
    first.put(own.initial(1))
    second.put(LAYERS.initial(1))
    for model in (first, second):
        model.load(x, y)
        model.compute(0.25)
    assert far(got(first.gradient), own.gradient(own.initial(1), x, y, 0.25)) == 0.0


def module_class(module, methods):
    """Return module:Class of a class that is right but for some methods."""
    more = indent(dedent(methods), "    ")
    source = f"{TABLES['simple']}\nclass Other(Mine):\n    here = True\n{more}\n"
    return f"{module(source)}:Other"


def used(text, session):
    """Do with a class whatever a training does."""
    own = Own(text)
    x, y = own.data(100, 1).batch(np.arange(4))
    parameters = own.initial(1)
    own.gradient(parameters, x, y, 0.25)
    model = own.model(session, 4)
    for _ in range(2):
        model.put(parameters)
        model.load(x, y)
        model.compute(0.25)
    session.synchronize()


@pytest.mark.parametrize(("methods", "said"), TABLES["classes"])
def test_a_class_that_is_wrong_is_refused(module, sessions, methods, said):
    text = module_class(module, methods)
    found = refusal(QuestionError, used, text, sessions[0])
    assert found.message.replace("Other.", "Mine.").startswith(f"{text} {said}")
    assert (found.hint, "\n" in found.message) == (FIX, False)


@pytest.mark.parametrize(("source", "said"), TABLES["modules"])
def test_a_module_that_is_wrong_is_refused(module, source, said):
    text = f"{module(source)}:Mine"
    found = refusal(QuestionError, Own, text)
    assert found.message.startswith(f"{text} {said}")
    assert found.hint == FIX


@pytest.mark.parametrize(("text", "said", "fix"), TABLES["names"])
def test_a_class_that_is_not_there_is_refused(module, text, said, fix):
    module("")
    with pytest.raises(QuestionError, match=said) as error:
        Own(text)
    assert error.value.diagnostics[0].hint.startswith(fix)


def test_what_a_class_says_does_no_harm(gpumap):
    """Through the command line: one line, without its control characters, and no traceback."""
    wrong = "    def gradients(self, x, y, share): raise ValueError('a\\n\\x1b[2J\\u202eb')\n"
    (gpumap.folder / "mine.py").write_text(f"{TABLES['simple']}\nclass Odd(Mine):\n{wrong}")
    answer = gpumap("bench", "train", "--network", "mine:Odd", "--map", "a->cpu0", "--quiet")
    assert answer.code == Exit.QUESTION
    assert answer.err == (
        f"error: mine:Odd gradients failed: ValueError: a \\x1b[2J\\u202eb\n  fix: {FIX}\n"
    )
