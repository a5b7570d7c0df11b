"""`gpumap devices`: what is there, and why the rest is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.app.recording import Recording
from gpumap.commands.options import output_options, setting, timeout_option

if TYPE_CHECKING:
    from gpumap.app.output import Output
    from gpumap.app.program import Program


@click.command()
@setting("--backend", metavar="NAME", help="Ask this backend only.")
@timeout_option(60.0)
@output_options
@click.pass_obj
def devices(program: Program, *, backend: str | None, timeout: float, output: Output) -> None:
    """List every device that each backend finds, and why a backend finds none.

    The last line is a command to paste.
    """
    from gpumap.backends import REGISTRY
    from gpumap.errors import AbsentError, Diagnostic
    from gpumap.model import Kind, MapText
    from gpumap.resolve import Inventory, default_map

    unmeasured = Diagnostic(
        "no-gpu-record",
        "no figure of gpumap's own is from a GPU yet",
        hint="`make gpu` in its repository leaves a record of this one",
        severity="note",
    )
    with Recording("devices", program, output, time_limit=timeout) as record:
        inventory = Inventory(program.host(), backend)
        names = [backend] if backend else [name for name in REGISTRY if name != "fake"]
        probes = [inventory.probe(name) for name in names]
        record.probes = inventory.probes
        record.remarks += inventory.host.notes
        record.devices = tuple(device for probe in probes for device in probe.devices)
        if not record.devices:
            reason, fix = probes[0].reason, probes[0].fix
            raise AbsentError(f"{probes[0].name}: {reason or 'no device'}", fix)
        if any(d.kind is Kind.CUDA and d.backend != "fake" for d in record.devices):
            record.remarks.append(unmeasured)
        record.map = default_map(inventory)
        record.source = MapText(record.map.text, "default")
