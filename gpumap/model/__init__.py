"""The nouns of gpumap: what flows between parsing, resolving, measuring, judging and reporting.

Everything is frozen. Quantities are in SI base units (seconds, bytes, hertz); unknown is None.

A file is imported when one of its nouns is first requested: all together take longer than click.
The light ones load no msgspec: the grammar of a map is checked, and a word completed, without it.
"""

# ruff: noqa: F403 - the names of the files are those of the package
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gpumap.model.devices import *
    from gpumap.model.fitness import *
    from gpumap.model.judging import *
    from gpumap.model.maps import *
    from gpumap.model.measurements import *
    from gpumap.model.programs import *
    from gpumap.model.report import *
    from gpumap.model.results import *
    from gpumap.model.unmeasured import *

# In this order they are searched: the first three load no msgspec.
FILES = (
    "maps",
    "unmeasured",
    "report",
    "devices",
    "measurements",
    "programs",
    "judging",
    "fitness",
    "results",
)

T = TypeVar("T")


def replace(noun: T, **changes: Any) -> T:
    """Return a noun that differs in some fields: of a NamedTuple, a Struct or any other."""
    if hasattr(noun, "replaced"):
        return noun.replaced(**changes)  # type: ignore[no-any-return]
    if isinstance(noun, tuple):
        return noun._replace(**changes)  # type: ignore[attr-defined,no-any-return]
    kind = "msgspec.structs" if hasattr(noun, "__struct_fields__") else "dataclasses"
    return import_module(kind).replace(noun, **changes)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for file in FILES:
            module = import_module(f"gpumap.model.{file}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'gpumap.model' has no attribute {name!r}")
