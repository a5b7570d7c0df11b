"""Doctor's part for frameworks: ask the user's interpreter, and judge their answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.errors import AbsentError
from gpumap.machine import process_control
from gpumap.text import chosen, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.app.program import Program
    from gpumap.doctor.evidence import Nvidia
    from gpumap.doctor.interpreter import Interpreter
    from gpumap.model import Binding, Diagnosis

_DRIVER = 8.0  # seconds for the driver and nvidia-smi


@dataclass(frozen=True, slots=True)
class Answers:
    """What an interpreter, its libraries and the driver said."""

    interpreter: Interpreter
    seen: str  # the interpreter as the user named it
    facts: dict[str, dict[str, Any]]
    nvidia: Nvidia
    env: Mapping[str, str]

    def diagnoses(self, bindings: Sequence[Binding]) -> tuple[Diagnosis, ...]:
        """Return the diagnosis of each framework, and which of the map's devices it numbers how."""
        from gpumap.doctor.diagnose import diagnosis, seats

        visible = self.nvidia.driver.devices if self.nvidia.driver else ()
        found = []
        for name, raw in self.facts.items():
            told = [each for each in raw.get("devices") or () if isinstance(each, dict)]
            known = {**raw, "driver_devices": len(visible)}
            commands = self.interpreter.commands(name, self.env)
            found.append(diagnosis(known, commands, self.seen, seats(told, visible, bindings)))
        return tuple(found)


def python_of(program: Program, requested: str | None) -> str:
    """Return the interpreter that is asked for: else the active environment's, else the first."""
    active = program.env.get("VIRTUAL_ENV") or program.env.get("CONDA_PREFIX")
    return requested or (f"{active}/bin/python" if active else "python3")


def ask(program: Program, python: str | None, names: str | None, limit: float) -> Answers:
    """Ask libraries by name, or all that are installed.

    Raises:
        SourceError: the interpreter cannot be asked.
        AbsentError: it has none of the frameworks.
    """
    from gpumap.doctor import interpreter as asking
    from gpumap.doctor.facts import FRAMEWORKS
    from gpumap.doctor.gather import ask as ask_driver
    from gpumap.doctor.gather import denied
    from gpumap.machine.tree import Tree

    process_control.keep_orphans()  # what a library leaves behind ends with this process
    seen = python_of(program, python)
    found = asking.interpreter(seen, program.env, program.cwd)
    there = asking.frameworks(found)
    wanted = there if names is None else chosen(names, FRAMEWORKS, "framework", "--framework")
    if not wanted:
        message = f"none of {', '.join(FRAMEWORKS)} is installed for {printable(seen)}"
        raise AbsentError(message, hint="name another interpreter: --python .venv/bin/python")
    patience = min(limit, _DRIVER)
    with ThreadPoolExecutor(2) as pool:
        driver = pool.submit(ask_driver, program.env, patience)
        smi = pool.submit(asking.of_smi, program.env, patience)
        ready = [name for name in wanted if name in there]
        words = asking.answers(found, ready, program.env, limit)
    tree = Tree(Path("/"))
    machine = asking.facts(tree, program.env, denied(tree)) | smi.result()
    machine |= asking.of_driver(driver.result())
    machine = {key: value for key, value in machine.items() if value is not None}
    every = {n: machine | asking.metadata(found, n) | words.get(n, {}) for n in wanted}
    return Answers(found, seen, every, driver.result(), program.env)
