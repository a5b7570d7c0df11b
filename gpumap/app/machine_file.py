"""A machine in a file, to attach to an issue: what its backends find, without names and secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpumap.errors import AbsentError
from gpumap.files import write_atomic
from gpumap.model import Listed, io, replace
from gpumap.redaction import Redaction, host_names

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from gpumap.app.program import Program


def write_machine(program: Program, target: Path, keep: Collection[str]) -> None:
    """Write what `gpumap devices` finds, without names of hosts and users, paths and serials.

    Args:
        program: whose variables and machine it is.
        target: the file.
        keep: kinds of `gpumap.redaction` that stay.

    Raises:
        OSError: it cannot be written.
    """
    from gpumap.app.checking import find_devices
    from gpumap.app.recording import Draft
    from gpumap.results import headline

    draft = Draft("devices", Listed(), program, {})
    try:
        find_devices(draft, program.env.get("GPUMAP_BACKEND"))
    except AbsentError as error:  # a machine without a device is worth an issue, too
        draft.account(error, stopped=False)
    report = draft.report()
    tree = json.loads(io.written(replace(report, argv=(), headline=headline(report))))
    shown = Redaction(program.env, host_names(program.env), keep)
    write_atomic(target, io.signed(shown.tree(tree)))
