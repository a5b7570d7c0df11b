"""From facts to causes: every rule is tried; what is certain comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.doctor.frameworks import access, builds
from gpumap.doctor.frameworks.found import Found, printed, signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.doctor.frameworks.facts import Facts

    Rule = Callable[[Facts], Iterator[Found]]

# In the order in which causes of one rank are named.
RULES: tuple[Rule, ...] = (
    access.driver, builds.python_without_build, builds.conflicts, builds.jax,
    signs, builds.missing_library, builds.library_path, builds.cudnn_mismatch, builds.kernels,
    access.hidden, access.index, access.memory, access.interpreter, printed,
)  # fmt: skip
_ERROR = "GM534"  # of the library's own


def causes(facts: Facts) -> tuple[Found, ...]:
    """Return the causes that the facts show, the most probable first, each code once.

    Beside one that is certain, others are named only if they are certain too; an error of the
    library's own only if it cannot be imported, or nothing else is known.
    """
    every = [found for rule in RULES for found in rule(facts)]
    every.sort(key=lambda found: (not found.certain, found.rank))
    firsts = list({found.code: found for found in reversed(every)}.values())[::-1]
    firsts.sort(key=every.index)
    kept = [f for f in firsts if f.certain or not firsts[0].certain]
    return tuple(f for f in kept if f.code != _ERROR or f.certain or len(kept) == 1)
