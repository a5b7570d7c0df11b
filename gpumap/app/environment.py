"""A block about this machine to paste into an issue: what decides placement, and no secrets.

Variables are an allow-list. The home folder and the user's name are replaced wherever they stand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.errors import GpumapError
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.app.program import Program
    from gpumap.resolve import Inventory

_PATIENCE = 10.0  # seconds for each driver
_SHORTEST = 3  # letters of a user's name that are looked for
_LONGEST = 300  # characters of a line
_LIBRARIES = re.compile(r"(torch|pytorch|jax|tensorflow|cupy|onnxruntime|nvidia|cuda|triton|numpy)")


def block(program: Program, python: str | None) -> str:
    """Return the block, as Markdown."""
    from gpumap.resolve import Inventory

    inventory = Inventory(program.host(patience=_PATIENCE), None)
    rows = [*_system(inventory), *_devices(inventory), *_map(program), *_variables(program.env)]
    rows += _packages(program, python) if python else ()
    width = max(len(name) for name, _ in rows)
    texts = (f"{name:{width}}  {_clean(text, program.env)}" for name, text in rows)
    lines = (printable(line)[:_LONGEST].replace("```", "'''") for line in texts)
    return "\n".join(("```text", *lines, "```", ""))


def _clean(text: str, env: Mapping[str, str]) -> str:
    """Return a text without the home folder and the user's name."""
    home = env.get("HOME", "").rstrip("/")
    text = re.sub(r"/(home|Users)/[^/:;\s]+", "~", text.replace(home, "~") if home else text)
    names = {env.get(key, "") for key in ("USER", "LOGNAME", "SUDO_USER")} - {"root"}
    words = "|".join(re.escape(name) for name in names if len(name) >= _SHORTEST)
    return re.sub(rf"(?<![^\W_])({words})(?![^\W\d_])", "USER", text) if words else text


def _system(inventory: Inventory) -> Iterator[tuple[str, str]]:
    import platform

    from gpumap.doctor.interpreter import facts
    from gpumap.machine.tree import Tree
    from gpumap.version import __version__

    topology = inventory.host.topology
    known = facts(Tree(Path("/")), inventory.host.env, ())
    marks = [name for name in ("container", "wsl", "secure_boot") if known[name]]
    module = known["kernel_module_version"]
    yield "gpumap", f"{__version__}, Python {platform.python_version()}"
    yield "system", ", ".join((f"{platform.system()} {platform.release()}", *marks))
    cores = f"{len(topology.physical)} cores, {len(topology.cpus)} processors"
    yield "processor", f"{topology.model}, {cores}, quota {topology.quota or 'none'}"
    yield "memory", f"{topology.memory_total / 2**30:.0f} GiB"
    yield "NUMA nodes", str(len({cpu.numa_node for cpu in topology.cpus}))
    yield "NVIDIA", f"module {module}" if module else "no module is loaded"
    yield "GPUs on PCI", ", ".join(known["pci_gpus"] or ()) or "none"


def _devices(inventory: Inventory) -> Iterator[tuple[str, str]]:
    from gpumap.backends import REGISTRY

    for name in (name for name in REGISTRY if name != "fake"):
        probe = inventory.probe(name)
        yield name, probe.version or "usable" if probe.usable else f"no: {probe.reason}"
        for each in probe.devices:
            yield f"  {each.ref}", ", ".join(filter(None, (each.name, each.pci, each.uuid)))


def _map(program: Program) -> Iterator[tuple[str, str]]:
    from gpumap import sources

    try:
        found = sources.find(
            argument=None, option=None, map_file=None, env=program.env, cwd=program.cwd
        )
        yield "map", f"{found.text} ({found.origin})" if found else "none"
    except GpumapError as error:
        yield "map", str(error.diagnostics[0].message)


def _variables(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from gpumap.doctor.interpreter import VARIABLES
    from gpumap.machine import fingerprint

    known = sorted({*fingerprint.VARIABLES, *VARIABLES, "GPUMAP_BACKEND"})
    yield from ((name, f'"{env[name]}"') for name in known if name in env)


def _packages(program: Program, python: str) -> Iterator[tuple[str, str]]:
    from gpumap.doctor.interpreter import interpreter

    found = interpreter(python, program.env, program.cwd)
    yield "python", f"{found.about.get('python')} ({python})"
    names = sorted(name for name in found.packages if _LIBRARIES.match(name))
    yield from ((f"  {name}", found.packages[name].version) for name in names)
