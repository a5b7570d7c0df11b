"""Theano-MPI's contract, on one rank: what a model is given, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from gpumap.errors import QuestionError
from gpumap.session_file import is_model_class
from gpumap.training.model_class import train
from gpumap.training.rules import RuleSpec

BSP = RuleSpec("bsp")
CALLS = []


class Shared:
    """A shared variable: what it holds is changed by set_value alone."""

    def __init__(self, value):
        self._value = np.float32(value) * np.ones((2, 2), np.float32)

    def get_value(self):
        return self._value.copy()

    def set_value(self, value):
        self._value = value.copy()


class Told:
    """A model in the style of Theano-MPI's own: a config, shared variables, iterators to reset."""

    n_epochs = 2
    n_batch_train, n_batch_val = 3, 2

    def __init__(self, config):
        CALLS[:] = [config]
        self.data = self

    def build_model(self):
        self.params = [Shared(1), Shared(2)]

    def compile_iter_fns(self, sync_type):
        CALLS.append(sync_type)

    def reset_iter(self, mode):
        CALLS.append(mode)

    def train_iter(self, count, recorder):
        CALLS.append(count)
        recorder.start()
        self.params[0].set_value(self.params[0].get_value() + 1)
        recorder.train_error(count, 2.0 * count, self.epoch)
        recorder.end("calc")

    def val_iter(self, count, recorder):
        recorder.val_error(count, count, 0.5, 0.25)

    def adjust_hyperp(self, epoch):
        CALLS.append(("adjust", epoch))

    def cleanup(self):
        CALLS.append("cleanup")


def test_a_model_is_given_its_rank_and_each_batch_of_an_epoch(tmp_path, capsys):
    found = train(BSP, __name__, "Told", tmp_path / "p.npz")
    each = ["train", 0, 1, 2, "val"]
    config = {"rank": 0, "size": 1, "verbose": True}
    wanted = [config, "avg", *each, ("adjust", 0), *each, ("adjust", 1), "cleanup"]
    assert wanted == CALLS
    first = {"loss": 2.0, "error": 0.0, "val_loss": 0.5, "val_error": 0.5, "val_error_top5": 0.25}
    assert found == [{"epoch": 0, **first}, {"epoch": 1, **first, "error": 1.0}]
    assert len(capsys.readouterr().out.splitlines()) == 2
    with np.load(tmp_path / "p.npz") as saved:
        assert saved["arr_0"].tolist() == [[7, 7], [7, 7]]
        assert saved["arr_1"].tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize(("name", "without", "said"), [
    ("Told", ["train_iter", "cleanup"], "has no train_iter, no cleanup"),
    ("Told", ["build_model"], "has no params"), ("Tolled", [], "cannot be loaded"),
])  # fmt: skip
def test_a_class_that_lacks_something_or_is_not_there_is_refused(monkeypatch, name, without, said):
    for method in without:
        monkeypatch.delattr(Told, method)
    with pytest.raises(QuestionError, match=said):
        train(BSP, __name__, name)
    with pytest.raises(QuestionError, match="cannot be loaded"):
        train(BSP, "no.such.module", name)


def test_a_model_class_is_known_by_its_text_alone():
    """It is not executed, and may be anything."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert is_model_class(source, "Told")
    assert not is_model_class(source, "Shared")
    assert not is_model_class("class Told(:", "Told")
    assert not is_model_class("raise SystemExit", "Told")
