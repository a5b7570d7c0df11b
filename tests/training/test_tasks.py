"""A class of one's own is trained like a network of gpumap's; what is wrong with one is said."""

import sys
from itertools import count
from textwrap import dedent, indent

import numpy as np
import pytest
from buffers import got
from refusals import refusal
from sessions import opened
from tables import table

from gpumap.errors import QuestionError
from gpumap.training.network import Layer, Network
from gpumap.training.tasks import UserNetwork

TABLE = table(__file__)
FIX = "a network of one's own has parameters, batch and gradients, "
NUMBER = count()
ROUNDING = 1e-5  # of a gradient of these few examples, by its length
LAYERS = Network("same", 4, (Layer(5, "tanh"), Layer(2, "sigmoid")))
EXAMPLES = 12


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def write(source):
        name = f"own_{next(NUMBER)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.fixture
def mlp(module):
    """Return the network of LAYERS, as someone who has never seen gpumap would write it."""
    return UserNetwork(f"{module(TABLE['mlp'])}:Mlp")


@pytest.fixture(scope="module")
def sessions():
    with opened("numpy", "numpy") as both:
        yield both


def far(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_a_class_has_the_gradient_of_the_same_network_of_layers(mlp, sessions):
    x, y = mlp.data(100, 1).batch(np.arange(EXAMPLES))
    model = mlp.model(sessions[0], EXAMPLES)
    for parameters in (mlp.initial(1), LAYERS.initial(2)):
        wanted = LAYERS.gradient(parameters.astype(np.float64), x, y, 1 / EXAMPLES)
        model.put(parameters)
        model.load(x, y)
        model.compute(1 / EXAMPLES)
        assert far(mlp.gradient(parameters, x, y, 1 / EXAMPLES), wanted) < ROUNDING
        assert far(got(model.gradient), wanted) < ROUNDING
        assert got(model.weights).tobytes() == parameters.tobytes()


def test_parameters_may_lie_in_any_way(module, sessions):
    """By what they hold they are in C order; a gradient may be of another float, or a list."""
    own = UserNetwork(module_class(module, TABLE["in_any_way"]))
    model = own.model(sessions[0], 1)
    model.put(own.initial(1)[::-1].copy())
    model.load([0], [0])
    model.compute(1.0)
    assert own.initial(1).tolist() == list(range(13))
    assert got(model.gradient).tolist() == list(range(13))[::-1]


def module_class(module, methods):
    """Return module:Class of a class that is right but for some methods."""
    more = indent(dedent(methods), "    ")
    source = f"{TABLE['simple']}\nclass Other(Mine):\n    here = True\n{more}\n"
    return f"{module(source)}:Other"


def used(text, session):
    own = UserNetwork(text)
    x, y = own.data(100, 1).batch(np.arange(4))
    parameters = own.initial(1)
    own.gradient(parameters, x, y, 0.25)
    model = own.model(session, 4)
    for _ in range(2):
        model.put(parameters)
        model.load(x, y)
        model.compute(0.25)
    session.synchronize()


WRONG = [
    (method.format(body), said)
    for name, method in TABLE["methods"].items()
    for body, said in TABLE[f"wrong_{name}"]
]


@pytest.mark.parametrize(("methods", "said"), WRONG)
def test_a_class_that_is_wrong_is_refused(module, sessions, methods, said):
    text = module_class(module, methods)
    found = refusal(QuestionError, used, text, sessions[0])
    assert found.message.replace("Other.", "Mine.").startswith(f"{text} {said}")
    assert ("\n" in found.message, found.hint.startswith(FIX)) == (False, True)


@pytest.mark.parametrize(("source", "said"), TABLE["a_module_that_is_wrong_is_refused"])
def test_a_module_that_is_wrong_is_refused(module, source, said):
    text = f"{module(source)}:Mine"
    found = refusal(QuestionError, lambda: UserNetwork(text).parameters)
    assert found.message.startswith(f"{text} {said}")
    assert found.hint.startswith("start it in" if "loaded" in said else FIX)


@pytest.mark.parametrize(("text", "said", "fix"), TABLE["a_class_that_is_not_there_is_refused"])
def test_a_class_that_is_not_there_is_refused(module, text, said, fix):
    module("")
    found = refusal(QuestionError, lambda: UserNetwork(text).parameters)
    assert said in found.message
    assert found.hint.startswith(fix)
