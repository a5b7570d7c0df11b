"""A torch.nn.Module as a network: parameters and gradients as NumPy's, the rest by autograd.

The class has two methods beside its own:

    batch(numbers)      examples by their numbers, an int64 array: (x, y), on its device
    loss(x, y)          the mean loss of examples, a tensor of one number
    accuracy(x, y)      of examples, for --learn; it may be missing

It is made without arguments, with PyTorch's random numbers from the same seed each time, and
computes where it puts itself. Nothing of PyTorch is imported here: who gives a module has done so.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED = 0


def is_module(user_class: Any) -> bool:
    """Return whether a class is a torch.nn.Module."""
    bases = getattr(user_class, "__mro__", ())
    return any((b.__module__, b.__name__) == ("torch.nn.modules.module", "Module") for b in bases)


class TorchNetwork:
    """A module, as a user's class in NumPy: see `gpumap.training.tasks`."""

    def __init__(self, module_class: Callable[[], Any]) -> None:
        torch = sys.modules["torch"]
        with torch.random.fork_rng():
            torch.manual_seed(_SEED)
            self._module = module_class()
        self._no_grad = torch.no_grad
        self._tensors = [each for each in self._module.parameters() if each.requires_grad]
        self.parameters = [np.array(each.detach().cpu().numpy()) for each in self._tensors]
        self.batch = self._module.batch
        self.loss = partial(self._judged, self._module.loss)
        if hasattr(self._module, "accuracy"):
            self.accuracy = partial(self._judged, self._module.accuracy)

    def gradients(self, x: Any, y: Any, share: float) -> list[Array]:
        """Return the gradient of `share` times the sum of the examples' losses."""
        self._put()
        self._module.zero_grad(set_to_none=False)
        (self._module.loss(x, y) * (share * len(x))).backward()
        grads = zip(self._tensors, self.parameters, strict=True)
        return [np.zeros_like(p) if t.grad is None else t.grad.cpu().numpy() for t, p in grads]

    def _judged(self, method: Callable[[Any, Any], Any], x: Any, y: Any) -> float:
        """Return the loss of examples, or the accuracy."""
        self._put()
        with self._no_grad():
            return float(method(x, y))

    def _put(self) -> None:
        """Change the module's parameters to what the arrays have."""
        with self._no_grad():
            for tensor, array in zip(self._tensors, self.parameters, strict=True):
                tensor.copy_(tensor.new_tensor(array))
