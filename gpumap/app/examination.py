"""Doctor's run: read what decides placement, use each device, and judge both; `gpumap env`."""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap import sources
from gpumap.app.given_map import Where, read_map
from gpumap.app.program import Program, check_single_process
from gpumap.app.recording import Draft, Recording
from gpumap.app.replay import NOTHING_RAN, replay_map
from gpumap.backends import REGISTRY
from gpumap.doctor import diagnose, gather, health
from gpumap.doctor import interpreter as asking
from gpumap.doctor.facts import FRAMEWORKS
from gpumap.doctor.screening import DeviceRun, StepResult
from gpumap.engine.verify import one_of_each
from gpumap.errors import AbsentError, Diagnostic, GpumapError, MapError, QuestionError, SourceError
from gpumap.escape import printable
from gpumap.inventory import Inventory
from gpumap.machine import process_control
from gpumap.machine.topology import Tree
from gpumap.model import Binding, ContextMap, Diagnosed, Diagnosis, Resolution, replace
from gpumap.redaction import Redaction, host_names
from gpumap.resolve import default_map
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from gpumap.app.output import Output
    from gpumap.doctor.evidence import Evidence
    from gpumap.machine.cuda import CudaDevice

_WITH_MAP = 0.5  # of the time, for an interpreter's libraries beside a map
_REPORT = 3.0  # seconds of the limit, for what comes behind the probes


class DoctorRequest(NamedTuple):
    """What is to be examined."""

    where: Where
    python: str | None
    replay: Path | None
    timeout: float
    output: Output


def examine(program: Program, request: DoctorRequest) -> None:
    """Say for each name whether its device is used, and if not, why.

    Raises:
        QuestionError: it is asked about an interpreter here and a machine elsewhere.
    """
    if request.python is not None and request.replay is not None:
        text = "--python asks an interpreter of this machine, --replay is another one"
        raise QuestionError(text, "omit one of them")
    draft = Draft("doctor", Diagnosed(), program, {})
    draft.remarks += check_single_process(program, "doctor")
    with Recording(draft, request.output, request.timeout) as record:
        _Examination(record, request).run()


class _Examination:
    """One run of doctor: it reads, measures, judges, and tells the record."""

    def __init__(self, record: Recording, request: DoctorRequest) -> None:
        self._record, self._draft = record, record.draft
        self._end = time.monotonic() + request.timeout - _REPORT
        self._program, self._request = record.draft.program, request
        self._found: tuple[Diagnosis, ...] = ()

    def run(self) -> None:
        """Examine frameworks where they are named, and the map that is given or a default one."""
        python = self._request.python  # beside whose frameworks only a map that is given counts
        for_map = python is None or self._request.where[:2] != (None, None)
        libraries = None if python is None else self._asked(python, _WITH_MAP if for_map else 1.0)
        try:
            if for_map:
                self._run()
        finally:
            if libraries is not None:
                resolution = self._draft.resolution
                self._add(libraries.diagnoses(resolution.bindings if resolution else ()))

    def _asked(self, python: str, share: float) -> Answers:
        """Ask the libraries of an interpreter, in a share of the time that is left."""
        self._record.limit.doing = "asking the interpreter"
        found = ask(self._program, python, max((self._end - time.monotonic()) * share, 1.0))
        self._record.limit.doing = ""
        return found

    def _run(self) -> None:
        request = self._request
        if request.replay is not None:
            self._conclude(self._recorded(request.replay))
            return
        inventory = Inventory(self._program.host(), request.where.backend, self._end)
        try:
            context_map = read_map(self._draft, request.where, lambda: self._chosen(inventory))
        except (MapError, SourceError) as error:
            self._conclude(replace(self._read(inventory), problems=error.diagnostics))
            raise
        self._conclude(self._examined(context_map, inventory))

    def _recorded(self, path: Path) -> Evidence:
        """Return what a machine's file tells."""
        draft = self._draft
        inventory, context_map = replay_map(draft, self._request.where, path)
        known = gather.recorded(draft.source, context_map, inventory, NOTHING_RAN)
        draft.resolution = Resolution(context_map, gather.bindings(known))
        return known

    def _read(self, inventory: Inventory) -> Evidence:
        source = self._draft.source
        given = source if source and source.origin != "default" else None
        return gather.configuration(self._program.cwd, given, inventory)

    def _examined(self, context_map: ContextMap, inventory: Inventory) -> Evidence:
        """Return the evidence, the probes' figures with it."""
        known = self._read(inventory)
        self._record.limit.doing = "asking the drivers"
        known = gather.surroundings(known, context_map, inventory)
        self._draft.backends = inventory.libraries
        found_here = gather.bindings(known)
        self._draft.resolution = Resolution(context_map, found_here)
        self._record.limit.doing = "using the devices"
        results, env, within = list[StepResult](), self._program.env, self._request.timeout
        devices = one_of_each(found_here)
        try:
            DeviceRun(devices, env, "doctor", within, self._end, results.append).run()
        except KeyboardInterrupt:
            self._conclude(gather.with_results(known, devices, results))
            raise
        self._record.limit.doing = ""
        return gather.with_results(known, devices, results)

    def _chosen(self, inventory: Inventory) -> ContextMap:
        """Return what is examined without a map: Theano's default device, or what is there."""
        if (found := gather.theano_map(self._program.env, self._program.cwd)) is not None:
            return found
        gather.probe_backends(inventory)
        return default_map(inventory)

    def _conclude(self, known: Evidence) -> None:
        self._draft.remarks += diagnose.notes(known)
        found = diagnose.diagnoses(known)
        if diagnose.only_default_cores(known, found):
            message = "no map is given and this machine has no GPU; the CPU works"
            self._draft.remarks.append(Diagnostic("nothing-to-diagnose", message, severity="note"))
            return
        self._add(found, refused=not known.problems)  # which are the errors of this run

    def _add(self, found: tuple[Diagnosis, ...], *, refused: bool = True) -> None:
        """Add diagnoses, and what they end the run in."""
        self._found += found
        self._draft.result = Diagnosed(self._found)
        for diagnosis, code in diagnose.exits(found if refused else ()):
            first = diagnosis.findings[0]
            name = diagnosis.name or ""
            used = "partly used" if diagnosis.verdict == "partly" else diagnosis.verdict
            how = "uses no GPU" if diagnosis.interpreter else f"is {used}"
            message = f"{name} {how}: {first.code} {first.text}"
            diagnostic = Diagnostic("diagnosis", message, hint=first.fix, name=diagnosis.name)
            self._draft.refuse(diagnostic, code)


# --- frameworks: the user's interpreter is queried, and its answers judged

_DRIVER = 8.0  # seconds for the driver


class Answers(NamedTuple):
    """What an interpreter, its libraries and the driver said."""

    python: str  # the interpreter as the user named it
    commands: Mapping[str, str]  # of fixes
    visible: Sequence[CudaDevice]
    facts: Sequence[Mapping[str, Any]]  # of each framework

    def diagnoses(self, bindings: Sequence[Binding]) -> tuple[Diagnosis, ...]:
        """Return the diagnosis of each framework, and which of the map's devices it numbers how."""
        found = []
        for known in self.facts:
            devices = [each for each in known.get("devices") or () if isinstance(each, dict)]
            numbers = diagnose.numbering(devices, self.visible, bindings)
            found.append(diagnose.diagnosis(known, self.commands, self.python, numbers))
        return tuple(found)


def ask(program: Program, python: str, limit: float) -> Answers:
    """Ask the libraries that are installed for an interpreter.

    Raises:
        SourceError: the interpreter cannot be asked.
        AbsentError: it has none of the frameworks.
    """
    process_control.keep_orphans()  # what a library leaves behind ends with this process
    found = asking.interpreter(python, program.env, program.cwd)
    there = asking.frameworks(found)
    if not there:
        message = f"none of {', '.join(FRAMEWORKS)} is installed for {python}"
        raise AbsentError(message, hint="name the one your program runs with: --python PATH")
    patience = min(limit, _DRIVER)
    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(health.query, program.env, patience, "cuda")
        words = asking.answers(found, there, program.env, limit)
    tree, nvidia = Tree(Path("/")), driver.result()
    visible = nvidia.driver.devices if nvidia.driver else ()
    machine = asking.facts(tree, program.env, gather.denied(tree)) | asking.of_driver(nvidia)
    machine = {key: value for key, value in machine.items() if value is not None}
    last = {"driver_devices": len(visible)}
    facts = [machine | asking.metadata(found, name) | words[name] | last for name in there]
    return Answers(python, found.commands(program.env), visible, facts)


# --- a block about this machine to paste into an issue: what decides placement, and no secrets
#
# Variables are an allow-list. The home folder and the user's name are replaced wherever they stand.

_ASKING = 25.0  # seconds for all drivers
_LONGEST = 300  # characters of a line


def environment(program: Program, keep: Collection[str]) -> str:
    """Return the block, as Markdown, without what `gpumap.redaction` takes out, but for `keep`."""
    inventory = Inventory(program.host(), end=time.monotonic() + _ASKING)
    known = sorted({*asking.VARIABLES, "GPUMAP_BACKEND"} & {*program.env})
    variables = ((name, f'"{program.env[name]}"') for name in known)
    rows = [*_system(inventory), *_devices(inventory), *_map(program), *variables]
    shown = Redaction(program.env, host_names(program.env), keep)
    width = max(len(name) for name, _ in rows)
    texts = (f"{name:{width}}  {shown.text(text)}" for name, text in rows)
    lines = (printable(line)[:_LONGEST].replace("```", "'''") for line in texts)
    return "\n".join(("```text", *lines, "```", ""))


def _system(inventory: Inventory) -> Iterator[tuple[str, str]]:
    topology = inventory.host.topology
    known = asking.facts(Tree(Path("/")), inventory.host.env, ())
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
    for name in (name for name in REGISTRY if name != "fake"):
        probe = inventory.probe(name)
        yield name, probe.version or "usable" if probe.usable else f"no: {probe.reason}"
        for each in probe.devices:
            yield f"  {each.ref}", ", ".join(filter(None, (each.name, each.pci, each.uuid)))


def _map(program: Program) -> Iterator[tuple[str, str]]:
    try:
        found = sources.find(env=program.env, cwd=program.cwd)
        yield "map", f"{found.text} ({found.origin})" if found else "none"
    except GpumapError as error:
        yield "map", str(error.diagnostics[0].message)
