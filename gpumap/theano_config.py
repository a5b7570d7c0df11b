"""What Theano does with a map beside its other options: who gets the work, which names it loses.

Theano 1.0.5: gpuarray/__init__.py defines one context for each text of a device, `device` before
`contexts`; configdefaults.py refuses a `device` that is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpumap.errors import Diagnostic
from gpumap.text import printable

Options = Mapping[str, tuple[str, str]]  # value, and where it is from

_GPUS = ("cuda", "opencl")
_ALLOWED = ("cpu", *_GPUS)
_FALSE = ("False", "false", "0")
_SHOWN = 80


def default_device(options: Options) -> str | None:
    """Return the device that `device` sends all work to; None where that is the processor."""
    value = options.get("device", ("", ""))[0]
    return value if value.startswith(_GPUS) else None


def refused_device(options: Options) -> str | None:
    """Return a `device` at which `import theano` fails, such as a name of the map."""
    value = options.get("device", ("", ""))[0]
    return None if not value or value.startswith(_ALLOWED) else value


def lost_names(options: Options) -> dict[str, str]:
    """Return the names that Theano prints as mapped and does not define, each with who came first.

    That is `device=cuda0`, or another name.
    """
    lost: dict[str, str] = {}
    owners: dict[str, str] = {}
    for key in ("init_gpu_device", "device"):  # with contexts both do the same; device wins
        value = options.get(key, ("", ""))[0]
        owners = {value: f"{key}={value}"} if value.startswith(_GPUS) else owners
    for entry in options.get("contexts", ("", ""))[0].split(";"):
        name, arrow, device = (part.strip() for part in entry.partition("->"))
        if arrow and device in owners and owners[device] != name:
            lost[name] = owners[device]
        owners.setdefault(device, name)
    return lost


def notes(options: Options) -> Iterator[Diagnostic]:
    """Yield what becomes of a map in Theano, by its other options."""
    for name, owner in lost_names(options).items():
        message = f'Theano does not define "{_cut(name)}": {_cut(owner)} has its device'
        hint = f"remove {_cut(owner)}" if "=" in owner else "give each name a device of its own"
        yield Diagnostic("theano-lost-name", message, hint=hint, severity="warning", name=name)
    if (device := refused_device(options)) is not None:
        origin = options["device"][1]
        message = f"device={_cut(device)} ({_cut(origin)}): Theano refuses it when it is imported"
        hint = "write device=cuda0 for all work, or target= for one variable; names are no devices"
        yield Diagnostic("theano-device", message, hint=hint, severity="warning")
    elif default_device(options) is None and "->" in options.get("contexts", ("", ""))[0]:
        message = "contexts alone leaves inputs and shared variables on the processor"
        hint = 'set target="dev0" on each, or device=cuda0 for all work'
        yield Diagnostic("theano-no-default", message, hint=hint, severity="note")
    value, place = options.get("print_active_device", ("", ""))
    if value in _FALSE:
        message = f"print_active_device={value} ({_cut(place)}): no line is printed for a name"
        yield Diagnostic("theano-silent", message, severity="note")


def default_note(options: Options) -> Iterator[Diagnostic]:
    """Yield where all work goes, for when there is no map."""
    if (device := default_device(options)) is not None:
        origin = options["device"][1]
        message = f"Theano's default device is set: device={_cut(device)} ({_cut(origin)})"
        hint = f'check that device: gpumap check "dev0->{_cut(device)}"'
        yield Diagnostic("theano-default-device", message, hint=hint, severity="note")


def _cut(text: str) -> str:
    return printable(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}...")
