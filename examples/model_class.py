"""A ModelClass and a DataClass as Theano-MPI has them, in NumPy, trained by one of its rules.

python examples/model_class.py                           # by BSP, on cpu0
DEVICES=cpu0,cpu1 python examples/model_class.py         # on two devices, a process for each
gpumap run --cfg launch_session.cfg                      # with MODELFILE=model_class
"""

import os

import numpy as np

import gpumap

TRAIN, VAL, BATCH, INPUTS = 64, 16, 16, 8


class DataClass:
    """On which side of a plane? In batches, each of which goes to one rank."""

    def __init__(self) -> None:
        self.n_batch_train, self.n_batch_val = TRAIN, VAL
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((TRAIN + VAL, BATCH, INPUTS)).astype(np.float32)
        self.y = (self.x @ rng.standard_normal(INPUTS) > 0).astype(np.float32)


class ModelClass:
    """Logistic regression by SGD with momentum."""

    n_epochs = 4

    def __init__(self) -> None:
        self.data = DataClass()
        self.params = [np.zeros(INPUTS, np.float32), np.zeros(1, np.float32)]
        self.vels = [np.zeros_like(param) for param in self.params]
        self.rate = 0.05

    def compile_iter_fns(self) -> None:
        """Do nothing: NumPy compiles nothing."""

    def train_iter(self, count: int, recorder: object) -> None:
        """Train on a batch of the training data."""
        recorder.start()
        x, wrong, cost, error = self._compute(count)
        gradients = [x.T @ wrong / len(x), wrong.mean(keepdims=True)]
        for param, vel, gradient in zip(self.params, self.vels, gradients, strict=True):
            vel[...] = np.float32(0.9) * vel + gradient
            param[...] = param - np.float32(self.rate) * vel
        recorder.train_error(count, cost, error)
        recorder.end("calc")

    def val_iter(self, count: int, recorder: object) -> None:
        """Validate on a batch of the validation data."""
        _, _, cost, error = self._compute(self.data.n_batch_train + count)
        recorder.val_error(count, cost, error, 0.0)

    def adjust_hyperp(self, epoch: int) -> None:
        """Lower the rate after each epoch."""
        self.rate = 0.05 * 0.8 ** (epoch + 1)

    def cleanup(self) -> None:
        """Let go of the data."""
        self.data = None

    def _compute(self, batch: int) -> tuple:
        """Return the examples of a batch, how wrong each output is, the loss and the error."""
        x, y = self.data.x[batch], self.data.y[batch]
        p = (1 / (1 + np.exp(-(x @ self.params[0] + self.params[1])))).clip(1e-7, 1 - 1e-7)
        cost = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        return x, p - y, cost, (p.round() != y).mean()


if __name__ == "__main__":
    rule = gpumap.BSP()
    rule.init(
        devices=os.environ.get("DEVICES", "cpu0").split(","),
        modelfile="model_class",
        modelclass="ModelClass",
    )
    last = rule.wait()[-1]
    print(f"after {last['epoch'] + 1} epochs the validation loss is {last['val_loss']:.3f}")
