"""NumPy, imported when it is first used: a start, a help text and a completion take none of it.

`np` stands for the module. What was once read of it is kept, and as quick as of the module itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy as np

            found = getattr(np, name)
            setattr(self, name, found)
            return found

    np, Array = _Numpy(), Any

__all__ = ["Array", "np"]
