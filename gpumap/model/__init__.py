"""The nouns of gpumap: what flows between parsing, resolving, measuring, judging and reporting.

Everything is frozen. Quantities are in SI base units (seconds, bytes, hertz); unknown is None.

A file is imported when one of its nouns is first asked for: all together take longer than click.
To complete a word loads no msgspec: what completion imports writes `model.Check`, looked up later.
"""

# ruff: noqa: F403 - the names of the files are those of the package
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpumap.model.devices import *
    from gpumap.model.figures import *
    from gpumap.model.judging import *
    from gpumap.model.machine import *
    from gpumap.model.maps import *
    from gpumap.model.measuring import *
    from gpumap.model.report import *
    from gpumap.model.utilisation import *

# In this order they are searched: the first four load no msgspec.
FILES = ("maps", "figures", "devices", "report", "machine", "measuring", "judging", "utilisation")


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for file in FILES:
            found = import_module(f"gpumap.model.{file}")
            if hasattr(found, name):
                globals()[name] = getattr(found, name)
                return globals()[name]
    raise AttributeError(f"module 'gpumap.model' has no attribute {name!r}")
