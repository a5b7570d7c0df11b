"""Memory of a JAX session: its arrays never change, so a buffer is a place for the latest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import Elements

if TYPE_CHECKING:
    from collections.abc import Iterable


class Place:
    """The array that is there now; whoever writes puts another one in.

    `lost` is one that was given to a program which failed, or that Ctrl-C ended: none replaces it.
    """

    def __init__(self, array: Any) -> None:
        self.array, self.lost = array, None

    def wait(self) -> None:
        """Wait for the array; where another thread has it replaced meanwhile, for that one.

        For one that is lost nothing is left to wait: the error was raised where it was queued.
        """
        while True:
            array = self.array
            try:
                array.block_until_ready()
            except RuntimeError:
                if array is self.lost:
                    return
                if not array.is_deleted():
                    raise
            else:
                return


def lose(places: Iterable[Place]) -> None:
    """Note that nothing replaces what is in places now."""
    for place in places:
        place.lost = place.array


class JaxBuffer(Elements):
    """Elements of a place: all of them as they are, or some from `start` on."""

    memory: Place

    @property
    def native(self) -> Any:
        """Return JAX's array of the elements."""
        array = self.memory.array
        if self.shape == array.shape:
            return array
        return array.reshape(-1)[self.start : self.start + self.size].reshape(self.shape)

    def put(self, array: Any) -> None:
        """Let the elements be those of another array, on the same device."""
        there = self.memory.array
        if self.shape != there.shape:
            end = self.start + self.size
            flat = there.reshape(-1).at[self.start : end].set(array.reshape(-1))
            array = flat.reshape(there.shape)
        self.memory.array = array
