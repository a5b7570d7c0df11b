"""A class of one's own is trained like a network of gpumap's; what is wrong with one is said."""

import sys
from itertools import count
from textwrap import dedent, indent

import numpy as np
import pytest
from sessions import got, opened

from gpumap.distributed.algorithms import schedule
from gpumap.distributed.local import LocalExchange
from gpumap.errors import Exit, QuestionError
from gpumap.training.network import Layer, Network
from gpumap.training.optimizers import OPTIMIZERS, Mean, Optimizer
from gpumap.training.tasks import Own
from gpumap.training.workers import LocalTeam, Worker

FIX = "a network of one's own has parameters, batch and gradients: see README"
NUMBER = count()
ROUNDING = 1e-5  # of a gradient of these few examples, by its length
LAYERS = Network("same", 4, (Layer(5, "tanh"), Layer(2, "sigmoid")))
EXAMPLES, RATE, STEPS = 12, 0.1, 5

# The network of LAYERS, as someone who has never seen gpumap would write it.
MLP = """
import numpy as np

class Mlp:
    def __init__(self):
        rng = np.random.default_rng(3)
        self.w = rng.normal(size=(4, 5)).astype(np.float32)
        self.b = np.zeros(5, np.float32)
        self.v = rng.normal(size=(5, 2)).astype(np.float32)
        self.c = np.zeros(2, np.float32)
        self.parameters = [self.w, self.b, self.v, self.c]

    def batch(self, numbers):
        x = np.stack([np.random.default_rng(n).random(4, np.float32) for n in numbers])
        return x, (x[:, :2] > 0.5).astype(np.float32)

    def gradients(self, x, y, share):
        hidden = np.tanh(x @ self.w + self.b)
        output = 1 / (1 + np.exp(-(hidden @ self.v + self.c)))
        out = (output - y) * share / 2
        back = out @ self.v.T * (1 - hidden**2)
        return [x.T @ back, back.sum(axis=0), hidden.T @ out, out.sum(axis=0)]
"""

SIMPLE = """
import numpy as np

class Mine:
    def __init__(self):
        self.parameters = [np.zeros((2, 3), np.float32), np.ones(2, np.float32)]

    def batch(self, numbers):
        return numbers, numbers

    def gradients(self, x, y, share):
        return [np.full((2, 3), share * len(x), np.float32), np.zeros(2, np.float32)]
"""


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
def mlp(module):
    return Own(f"{module(MLP)}:Mlp")


@pytest.fixture(scope="module")
def sessions():
    with opened("numpy", "numpy") as both:
        yield both


def far(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_a_class_has_as_many_parameters_as_its_arrays(mlp):
    """What nobody can know of a class is not told: its operations, and its loss."""
    arrays = mlp.made().parameters
    flat = mlp.initial(1)
    assert mlp.parameters == LAYERS.parameters == flat.size
    for array, slot in zip(arrays, mlp.blocks(), strict=True):
        assert flat[slot].tolist() == array.reshape(-1).tolist()
    assert mlp.loss(flat, *mlp.data(100, 1).batch(np.arange(3))) is None
    assert (mlp.operations(8), mlp.memory(8)) == (0, 2 * 4 * mlp.parameters)


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


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_class_learns_what_the_same_network_of_layers_learns(mlp, sessions, optimizer):
    learned = []
    for task in (mlp, LAYERS):
        workers = [
            Worker(f"w{n}", task.model(s, EXAMPLES), Optimizer(optimizer, s, task.parameters))
            for n, s in enumerate(sessions)
        ]
        team = LocalTeam(workers, lambda buffers: LocalExchange(
            schedule("ring", 2, buffers[0].shape[0]), sessions, buffers
        ))  # fmt: skip
        data, half = mlp.data(100, 1), EXAMPLES // 2
        team.begin(mlp.initial(1))
        for step in range(STEPS):
            for n, worker in enumerate(workers):
                start = step * EXAMPLES + n * half
                worker.model.load(*data.batch(data.numbers(start, start + half)))
                worker.model.compute(1 / EXAMPLES)
            team.exchange(Mean("gradients"), [0.5, 0.5])
            for worker in workers:
                worker.update(RATE)
        for worker in workers:
            worker.session.synchronize()
        weights = [got(worker.model.weights) for worker in workers]
        assert weights[0].tobytes() == weights[1].tobytes()
        learned.append(weights[0])
    began = mlp.initial(1)
    assert far(learned[0], began) > 100 * ROUNDING
    assert far(learned[0] - began, learned[1] - began) < 100 * ROUNDING


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


def test_each_worker_has_an_object_of_its_own(mlp, sessions):
    first, second = (mlp.model(session, EXAMPLES) for session in sessions)
    x, y = mlp.data(100, 1).batch(np.arange(4))
    first.put(mlp.initial(1))
    second.put(LAYERS.initial(1))
    for model in (first, second):
        model.load(x, y)
        model.compute(0.25)
    assert far(got(first.gradient), mlp.gradient(mlp.initial(1), x, y, 0.25)) == 0.0


def module_class(module, methods):
    """Return module:Class of a class that is right but for some methods."""
    more = indent(dedent(methods), "    ")
    source = f"{SIMPLE}\nclass Other(Mine):\n    here = True\n{more}\n"
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


LIST = "has no list of arrays that is called parameters"
MADE = [  # what stands in __init__, and what is said
    ("raise OSError('no data set')", "cannot be made: OSError: no data set"),
    ("raise SystemExit('usage: mine')", "cannot be made: SystemExit: usage: mine"),
    ("pass", LIST),
    ("self.parameters = []", LIST),
    ("self.parameters = (np.zeros(1, np.float32),)", LIST),
    ("self.parameters = [1.5]", "parameters[0] is no float32 array: float"),
    ("self.parameters = [np.zeros(1, 'f4'), np.zeros(2)]", "parameters[1] is no float32 array"),
    ("self.parameters = [np.zeros((3, 0), np.float32)]", "parameters[0] is empty"),
    ("self.parameters = [np.broadcast_to(np.float32(0), (3,))]", "parameters[0] is read-only"),
    ("self.parameters = [np.zeros(3, np.float32)] * 2", "has an array twice"),
    ("self.parameters = [np.random.default_rng().random(3, 'f4')]", "begins with other parameters"),
]
ASKED = [  # what their property does
    ("return self.weights", LIST),
    ("return 1 / 0", "parameters failed: ZeroDivisionError: division by zero"),
]
BATCH = [
    ("pass", "batch failed: TypeError: cannot unpack non-iterable NoneType object"),
    ("return (numbers,)", "batch failed: ValueError: not enough values to unpack"),
    ("return iter(numbers), numbers", "batch failed: TypeError: object of type 'iterator'"),
    ("return numbers[1:], numbers[1:]", "batch made 3 examples, and 4 were requested"),
    ("raise EOFError", "batch failed: EOFError"),
]
OTHERS = "gradients are of shapes [{}], and its parameters of [(2, 3), (2,)]"
GRADIENTS = [
    ("raise ValueError('a\\n  b')", "gradients failed: ValueError: a b"),
    ("raise MemoryError", "gradients failed: MemoryError"),
    ("pass", "gradients failed: TypeError: 'NoneType' object is not iterable"),
    ("return self.parameters[:1]", OTHERS.format("(2, 3)")),
    ("return [a.T for a in self.parameters]", OTHERS.format("(3, 2), (2,)")),
    ("return [[[1, 2, 3], [4]], [1, 2]]", "gradients failed: ValueError: setting an array element"),
    ("return [a.astype(str) for a in self.parameters]", "gradients are no floating-point numbers"),
    ("return [a * 1j for a in self.parameters]", "gradients are no floating-point numbers"),
    ("return [a.astype(int) for a in self.parameters]", "gradients are no floating-point numbers"),
    (
        "found = [a.copy() for a in self.parameters]; self.parameters.pop(); return found",
        "has other parameters than it was made with",
    ),
]
WRONG = [
    ("def __init__(self, size): pass", "cannot be made: TypeError: Mine.__init__() missing 1"),
    ("def batch(self): return 1, 2", "batch failed: TypeError: Mine.batch() takes 1"),
    ("def gradients(self, x, y): pass", "gradients failed: TypeError: Mine.gradients() takes 3"),
    *((f"def __init__(self): {body}", said) for body, said in MADE),
    *((f"def __init__(self): pass\n@property\ndef parameters(self): {body}", said)
      for body, said in ASKED),
    *((f"def batch(self, numbers): {body}", said) for body, said in BATCH),
    *((f"def gradients(self, x, y, share): {body}", said) for body, said in GRADIENTS),
]  # fmt: skip


@pytest.mark.parametrize(("methods", "said"), WRONG)
def test_a_class_that_is_wrong_is_refused(module, sessions, methods, said):
    text = module_class(module, methods)
    with pytest.raises(QuestionError) as error:
        used(text, sessions[0])
    (found,) = error.value.diagnostics
    assert found.message.replace("Other.", "Mine.").startswith(f"{text} {said}")
    assert "\n" not in found.message
    assert (found.hint, error.value.exit_code) == (FIX, Exit.QUESTION)


@pytest.mark.parametrize(("source", "said"), [
    ("class Mine(: pass", "cannot be loaded: SyntaxError: "),
    ("import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such"),
    ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
    ("raise SystemExit(2)", "cannot be loaded: SystemExit: 2"),
    ("class Yours: pass", "cannot be loaded: AttributeError: module "),
    ("Mine = 3", "has no method batch and no method gradients"),
    ("class Mine:\n    def batch(self, numbers): pass", "has no method gradients"),
    ("class Mine:\n    batch = gradients = 3", "has no method batch and no method gradients"),
    ("def Mine(): pass", "has no method batch and no method gradients"),
])  # fmt: skip
def test_a_module_that_is_wrong_is_refused(module, source, said):
    text = f"{module(source)}:Mine"
    with pytest.raises(QuestionError) as error:
        Own(text)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.message.startswith(f"{text} {said}")
    assert diagnostic.hint == FIX


@pytest.mark.parametrize(("text", "said", "fix"), [
    *((text, "names no class", "write module:Class, ")
      for text in ("", "mine", "mine:", ":Mine", ":")),
    ("no_such:Mine", "cannot be loaded: ", "start it in the folder that no_such.py is in, "),
    ("no.such:Mine", "cannot be loaded: ", "start it in the folder that no/such.py is in, "),
    ("a b:Mine", "cannot be loaded: ", "start it in the folder that a b.py is in, "),
    (".mine:Mine", "cannot be loaded: ", FIX),
])  # fmt: skip
def test_a_class_that_is_not_there_is_refused(module, text, said, fix):
    module("")
    with pytest.raises(QuestionError, match=said) as error:
        Own(text)
    assert error.value.diagnostics[0].hint.startswith(fix)


def test_what_a_class_says_does_no_harm(gpumap):
    """Through the command line: one line, without its control characters, and no traceback."""
    wrong = "    def gradients(self, x, y, share): raise ValueError('a\\n\\x1b[2J\\u202eb')\n"
    (gpumap.folder / "mine.py").write_text(f"{SIMPLE}\nclass Odd(Mine):\n{wrong}")
    answer = gpumap("bench", "train", "--network", "mine:Odd", "--map", "a->cpu0", "--quiet")
    assert answer.code == Exit.QUESTION
    assert answer.err == (
        f"error: mine:Odd gradients failed: ValueError: a \\x1b[2J\\u202eb\n  fix: {FIX}\n"
    )
