"""The preset `transformer`: a block of attention and a multilayer perceptron, by PyTorch.

Each is behind a layer norm and beside what goes around it (the order of Xiong et al.,
arXiv:2002.04745); then comes the mean over the tokens. Its examples are sequences of random tokens,
and the question is on which side of a plane their mean is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpumap.dtypes import np

if TYPE_CHECKING:
    from gpumap.dtypes import Array

TOKENS, WIDTH, HEADS, HIDDEN = 16, 64, 4, 256


class Transformer(torch.nn.Module):  # type: ignore[misc]  # PyTorch may not be installed
    """A network as `--network` takes it."""

    def __init__(self) -> None:
        super().__init__()
        how = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.block = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **how)
        self.last = torch.nn.Linear(WIDTH, 1)
        self._plane = np.random.default_rng(0).standard_normal(WIDTH)

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return sequences by their numbers, the same ones each time, and the answers."""
        every = [np.random.default_rng(number) for number in numbers.tolist()]
        x = np.stack([rng.standard_normal((TOKENS, WIDTH), np.float32) for rng in every])
        y = x.mean(axis=1, dtype=np.float64) @ self._plane > 0
        return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))

    def loss(self, x: Any, y: Any) -> Any:
        """Return the mean cross-entropy of examples."""
        return torch.nn.functional.binary_cross_entropy_with_logits(self._output(x), y)

    def accuracy(self, x: Any, y: Any) -> Any:
        """Return the share of examples that are answered right."""
        return ((self._output(x) > 0) == y).float().mean()

    def _output(self, x: Any) -> Any:
        return self.last(self.block(x).mean(dim=1))[:, 0]
