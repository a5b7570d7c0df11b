"""Parameters in a file, to go on with: NumPy's own format, with what they are of.

What N devices have learned is one array, and one device begins with it as any number does.
"""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np
from gpumap.errors import QuestionError, SourceError
from gpumap.files import read_bytes, write_atomic
from gpumap.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.training.tasks import Task


_FORMAT = "gpumap-checkpoint-1"
_ITEM = 4  # bytes of a parameter
_MORE = 1 << 20  # bytes that a file may hold beside the parameters
_FIX = "write one anew: gpumap bench train --learn 5120 --checkpoint FILE"


def save(path: Path, task: Task, parameters: Array, examples: int) -> None:
    """Write a checkpoint; nothing that stood there is lost before all of it is written.

    Raises:
        SourceError: it cannot be written: the disk is full, the folder is not there.
    """
    about = {
        "format": _FORMAT,
        "network": task.name,
        "parameters": task.parameters,
        "examples": examples,
        "sha256": hashlib.sha256(parameters.tobytes()).hexdigest(),
    }
    file = BytesIO()
    np.savez(file, parameters=parameters, about=np.array(json.dumps(about)))
    write_atomic(path, file.getvalue())


def load(path: Path, task: Task) -> Array:
    """Return the parameters of a checkpoint: float32, shape (parameters,).

    Raises:
        SourceError: there is no such file, it is no checkpoint, or it is damaged.
        QuestionError: it is of another network.
    """
    name = printable(str(path))
    about, parameters = _read(path, name, _ITEM * task.parameters + _MORE)
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise SourceError(f"{name} is no checkpoint of gpumap", _FIX)
    if about.get("sha256") != hashlib.sha256(parameters.tobytes()).hexdigest():
        said = f"{name} is damaged: its parameters are not those that were written"
        raise SourceError(said, _FIX)
    if (about.get("network"), parameters.shape) != (task.name, (task.parameters,)):
        of = printable(str(about.get("network")))
        said = f"{name} is of {of}, {parameters.size} parameters, and not of {task.name}"
        raise QuestionError(f"{said}, {task.parameters}", f"give one of {task.name}, or none")
    return parameters


def _read(path: Path, name: str, limit: int) -> tuple[Any, Array]:
    data = read_bytes(path, "checkpoint", limit)
    try:
        with np.load(BytesIO(data), allow_pickle=False) as found:
            parameters: Array = found["parameters"].astype(np.float32, casting="no")
            return json.loads(str(found["about"])), parameters
    except Exception as error:  # a damaged archive raises whatever its reader comes to
        why = printable(f"{type(error).__name__}: {error}")
        raise SourceError(f"{name} is no checkpoint: {why}", _FIX) from error
