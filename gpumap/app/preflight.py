"""`gpumap preflight`: may this machine take a job? One limit of time, one verdict for each name."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.given_map import Where, read_map
from gpumap.app.program import Program, check_single_process
from gpumap.app.recording import Draft, Recording
from gpumap.app.replay import NOTHING_RAN, replay_map
from gpumap.doctor import health
from gpumap.doctor.evidence import Health, MapName
from gpumap.doctor.gather import map_names
from gpumap.doctor.requirements import Requirements
from gpumap.doctor.screening import DeviceRun, tier_of
from gpumap.engine.verify import one_of_each
from gpumap.errors import Diagnostic, Exit, QuestionError
from gpumap.files import empty, shipped
from gpumap.inventory import Inventory
from gpumap.judge.fitness import whose
from gpumap.machine.state import link_states
from gpumap.machine.topology import Tree, has_gpu
from gpumap.model import Binding, ContextMap, FitnessCheck, Kind, Resolution, Screened, replace
from gpumap.resolve import default_map, warn_of_shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.output import Output

_EXITS = {
    "wrong-data": Exit.WRONG_DATA,
    "missing": Exit.ABSENT,
    "unfit": Exit.NO,
    "cannot-tell": Exit.INCONCLUSIVE,
}
_LEAST = 5.0  # seconds: in less no sound driver opens a device for certain
_REPORT = 0.7  # seconds of the limit, for what comes behind the checks
_HEALTH = 2.0  # seconds of it, for counters that drivers are asked for
_ON_THE_BUS = (Kind.CUDA, Kind.ROCM)  # cards are there for jobs; Intel's may be for a screen


class PreflightRequest(NamedTuple):
    """What is to be checked, in which time."""

    where: Where
    within: float
    expect: str | None
    require: Path | None
    replay: Path | None
    inconclusive: str
    output: Output


def preflight(program: Program, request: PreflightRequest) -> None:
    """Say whether the machine may take a job; the report has every item.

    Raises:
        QuestionError: the time is too short, or what is required cannot be understood.
    """
    if request.within < _LEAST:
        raise QuestionError(f"--within {request.within:g}s is too short", "give it 5s or more")
    required = Requirements.of(request.expect, request.require)
    settings = {"within_s": request.within, "expect": request.expect}
    settings |= {"inconclusive": request.inconclusive}
    draft = Draft("preflight", Screened(), program, settings)
    draft.remarks += check_single_process(program, "preflight")
    late = Exit.INCONCLUSIVE  # whether a node is fit is not known then
    with Recording(draft, request.output, request.within, late) as record:
        for target in request.output.targets if request.replay is None else ():
            empty(target.path)  # no report of an earlier run passes for this one's
        _Preflight(record, request, required).run()


class _Preflight:
    """One run: it finds the devices, uses them, and asks for their health."""

    def __init__(
        self, record: Recording, request: PreflightRequest, required: Requirements
    ) -> None:
        self._record, self._draft, self._program = record, record.draft, record.draft.program
        self._request, self._required = request, required
        self._end = time.monotonic() + request.within - _REPORT
        self._inventory = Inventory(self._program.host(), request.where.backend, self._end)

    def run(self) -> None:
        """Check all that there is time for."""
        if self._request.replay is not None:
            self._recorded(self._request.replay)
            return
        self._record.limit.doing = "asking the drivers"
        bindings = self._bindings()
        self._count(bindings)
        real = any(health.by_nvml(binding.device) for binding in bindings)
        end = self._end - (_HEALTH if real else 0.0)
        self._record.limit.doing = "using the devices"
        env, within = self._program.env, self._request.within
        devices = one_of_each(bindings)
        DeviceRun(
            devices, env, tier_of(within), within, end, lambda result: self._take(result.check)
        ).run()
        self._record.limit.doing = "asking for their health"
        self._health(devices, real=real)
        self._record.limit.doing = ""

    def _recorded(self, path: Path) -> None:
        """Check what a machine's file tells; of its devices it cannot tell whether they work."""
        inventory, found = replay_map(self._draft, self._request.where, path)
        bindings = self._named(found, map_names(found, inventory))
        self._count(bindings)
        there = "run gpumap preflight there"
        for binding in bindings:
            for item in self._required.of_device(binding.device, None):
                self._take(FitnessCheck(*item, name=binding.name))
            use = FitnessCheck("use", "cannot-tell", NOTHING_RAN, there, binding.name)
            self._note(use, Exit.INCONCLUSIVE)  # whatever may be ignored

    def _count(self, bindings: Sequence[Binding]) -> None:
        for item in self._required.of_node(bindings):
            self._take(FitnessCheck(*item))

    def _bindings(self) -> tuple[Binding, ...]:
        """Return the names that have a device; each other one is missing.

        Raises:
            AbsentError: no name has one, and none was named.
        """
        inventory = self._inventory
        try:
            found = read_map(self._draft, self._request.where, partial(default_map, inventory))
            names = map_names(found, inventory)
        finally:
            self._draft.backends = inventory.libraries
        bindings = self._named(found, names)
        source = self._draft.source
        if source is not None and source.origin == "default":
            self._take_overlooked(bindings)
        return bindings

    def _named(self, found: ContextMap, names: Sequence[MapName]) -> tuple[Binding, ...]:
        """Return the names that have a device; note those that have none."""
        bindings = tuple(Binding(n.name, n.device) for n in names if n.device is not None)
        self._draft.resolution = Resolution(found, bindings)
        self._draft.remarks += warn_of_shared(bindings)
        for name in names:
            if name.absent is not None:
                hint = name.absent.hint or "`gpumap doctor` says why"
                check = FitnessCheck("device", "missing", name.absent.message, hint, name.name)
                self._take(check)
        return bindings

    def _take_overlooked(self, bindings: Sequence[Binding]) -> None:
        """Note GPUs that a default map may lack: it takes what answers, at last the cores."""
        name_it = "name the devices of the job: gpumap preflight MAP; `gpumap doctor` says why"
        silent = [each for each in self._inventory.libraries if each.code is not None]
        for library in silent:
            text = f"{library.name}: {library.reason}"
            self._take(FitnessCheck("driver", "cannot-tell", text, name_it))
        if silent or any(binding.device.kind.row.maker for binding in bindings):
            return
        for row in (kind.row for kind in _ON_THE_BUS):
            if row.vendor is not None and has_gpu(Tree(Path("/")), row.vendor):
                text = f"a GPU of {row.maker} is on the PCI bus, and no driver lists it"
                self._take(FitnessCheck("driver", "cannot-tell", text, name_it))

    def _health(self, bindings: Sequence[Binding], *, real: bool) -> None:
        devices = [binding.device for binding in bindings]
        left = max(self._end - time.monotonic(), 0.1)
        known = health.query(self._program.env, left) if real else Health()
        links, tree = link_states(devices), Tree(Path("/"))
        for check in health.checks(bindings, known, links, self._required, tree):
            self._take(check)

    def _take(self, check: FitnessCheck) -> None:
        """Note a check, unless it is to be ignored."""
        if check.what not in self._required.ignore:
            passes = check.fitness == "cannot-tell" and self._request.inconclusive == "pass"
            self._note(check, Exit.OK if passes else _EXITS.get(check.fitness, Exit.OK))

    def _note(self, check: FitnessCheck, code: Exit) -> None:
        """Note a check, and what it means for the exit code."""
        assert isinstance(self._draft.result, Screened)
        check = fixed(check)
        self._draft.result = replace(self._draft.result, checks=(*self._draft.result.checks, check))
        if check.fitness == "fit":
            return
        message = f"{whose(check)}: {check.what}: {check.text}"
        found = Diagnostic("unfit", message, hint=check.fix, name=check.name)
        if check.fitness == "cannot-tell":
            found = Diagnostic("cannot-tell", message, hint=check.fix, name=check.name)
        self._draft.refuse(found, code)


def fixed(check: FitnessCheck) -> FitnessCheck:
    """Return an item with what to do about it, where it is not fit and that is not known yet."""
    if check.fitness == "fit" or check.fix is not None:
        return check
    fixes = shipped("gpumap.doctor", "fixes.toml")
    return replace(check, fix=fixes.get(check.fitness) or fixes.get(check.what) or fixes["other"])
