"""The devices of a machine: whether a map is true on it, the proof of each, and all there are.

The proof that a device is true: bytes that go there come back the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap import sources
from gpumap.app.given_map import Where, read_map
from gpumap.app.output import Output, say
from gpumap.app.program import Ended, Program, check_single_process
from gpumap.app.recording import Draft, Recording
from gpumap.errors import AbsentError, Diagnostic, Exit, GpumapError, QuestionError, WrongDataError
from gpumap.judge.exit_status import Gate, gated
from gpumap.judge.phrases import texts
from gpumap.model import Checked, Listed, MapText, replace
from gpumap.parse import parse_map
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.backends.base import Session
    from gpumap.inventory import Inventory
    from gpumap.model import Entry, Resolution

NBYTES = 4096
_SEED = 20260101
_PATIENCE = 60.0  # seconds for the drivers of all backends


def round_trip(session: Session) -> None:
    """Move 4 KiB of random bytes to the device and back, twice, into a poisoned destination.

    Raises:
        WrongDataError: a byte came back changed; the message says which.
    """
    import numpy as np

    rng = np.random.default_rng(_SEED)
    buffer = session.empty((NBYTES,), "uint8")
    for _ in range(2):  # stale memory may hold the first pattern, but not the second
        sent = rng.integers(0, 256, NBYTES, dtype=np.uint8)
        back = ~sent  # poisoned: every byte is wrong until it is written
        session.upload(sent, buffer)
        session.download(buffer, back)
        session.synchronize()
        _compare(sent, back, session)


def _compare(sent: Any, back: Any, session: Session) -> None:
    wrong = (sent != back).nonzero()[0]
    if wrong.size:
        at = int(wrong[0])
        raise WrongDataError(
            f"{session.device.ref} returned wrong bytes: {wrong.size} of {NBYTES}, first at {at} "
            f"(0x{sent[at]:02x} came back as 0x{back[at]:02x})",
            texts("failures")["wrong-data"],
        )


class CheckRequest(NamedTuple):
    """What is to be checked, and what must hold."""

    where: Where
    syntax_only: bool
    no_open: bool
    replay: Path | None
    needs: str | None
    distinct: bool
    if_absent: str
    strict: bool
    timeout: float
    output: Output


def check_map(program: Program, request: CheckRequest) -> None:
    """Check a map; of several processes each checks the one entry that it was given."""
    _compatible(request)
    skip = request.if_absent == "skip"
    prove = not (request.syntax_only or request.no_open or request.replay)
    settings = {"opened": prove} | ({"if_absent": "skip"} if skip else {})
    draft = Draft("check", Checked(), program, settings)
    if prove:
        draft.remarks += check_single_process(program, "check")
    with Recording(draft, request.output, request.timeout) as record:
        if skip:
            record.judge = partial(gated, gate=Gate(if_absent="skip"))
        try:
            if request.syntax_only:
                read_map(draft, request.where)
            else:
                _find(record, request, prove=prove)
        finally:  # absent devices do not excuse a name that is not there
            _refuse_unmet(draft, request.needs or "")
        if request.distinct and draft.resolution is not None:
            _refuse_shared(draft, draft.resolution)
        count = sum(note.severity == "warning" for note in draft.notes)
        if request.strict and count:
            message = f"--strict: {counted(count, 'warning')}"
            draft.refuse(Diagnostic("strict", message, hint="see above"))


def _compatible(request: CheckRequest) -> None:
    """Refuse what would pass without being looked at."""
    fix = "omit one of them"
    if request.syntax_only and request.distinct:
        raise QuestionError("--distinct looks at devices, --syntax-only looks for none", fix)
    if request.syntax_only and request.replay:
        raise QuestionError("--replay is a machine to look at, --syntax-only looks at none", fix)
    if request.needs is not None and not request.needs.strip(", "):
        raise QuestionError("--needs names nothing", "write --needs dev0,dev1, or omit it")


def _find(record: Recording, request: CheckRequest, *, prove: bool) -> None:
    from gpumap.inventory import Inventory
    from gpumap.resolve import resolve

    if request.replay is not None:
        from gpumap.app.replay import replay_map

        inventory, context_map = replay_map(record.draft, request.where, request.replay)
    else:
        context_map = read_map(record.draft, request.where)
        inventory = Inventory(record.draft.program.host(), request.where.backend)
    if prove:
        inventory.expect(str(entry.ref) for entry in context_map.entries)
    try:
        resolution = resolve(context_map, inventory)
    finally:
        if request.replay is None:
            record.draft.backends = inventory.libraries
    record.draft.resolution = resolution
    if prove:
        prove_map(record, resolution, inventory)


def _refuse_unmet(draft: Draft, needs: str) -> None:
    if draft.map is None:  # it does not parse
        return
    names = {"", *(entry.name for entry in draft.map.entries)}
    for name in map(str.strip, needs.split(",")):
        if name not in names:
            hint, message = f'add "{name}->..."', f'the map has no name "{name}"'
            draft.refuse(Diagnostic("needs", message, hint=hint, name=name))


def _refuse_shared(draft: Draft, resolution: Resolution) -> None:
    from gpumap.resolve import shared_hardware

    for names, hardware in shared_hardware(resolution.bindings).items():
        message = f"{', '.join(names)} are not distinct: {', '.join(hardware)}"
        draft.refuse(Diagnostic("distinct", message, hint="give each name a device of its own"))


# --- the proof that devices are true: each is opened, and moves bytes there and back
def prove_map(record: Recording, resolution: Resolution, inventory: Inventory) -> bool:
    """Prove each device of a map once; return whether all are true. The report says which fail."""
    true, seen = True, set[str]()
    places = zip(resolution.bindings, resolution.map.entries, strict=True)
    for number, (binding, entry) in enumerate(places, 1):
        if binding.device.id in seen:
            continue
        seen.add(binding.device.id)
        record.limit.doing = f"opening {entry.name} ({binding.device.ref})"
        try:
            clock = inventory.backend(binding.device.backend).clock()
            with inventory.open(binding.device, clock) as session:
                round_trip(session)
        except GpumapError as error:
            true = False
            _refuse(record.draft, error, entry, number)
        record.limit.doing = ""
    return true


def _refuse(draft: Draft, error: GpumapError, entry: Entry, number: int) -> None:
    """Report what is wrong with a device at its entry of the map."""
    about: dict[str, Any] = {"entry": number, "span": entry.span, "name": entry.name}
    for diagnostic in error.diagnostics:
        named = replace(diagnostic, message=f"{entry.name}: {diagnostic.message}", **about)
        draft.refuse(named, error.exit_code)


# --- the devices that there are
def list_devices(
    program: Program, *, backend: str | None, replay: Path | None, output: Output
) -> None:
    """List the devices of one backend, or of all; the map has each."""
    with Recording(Draft("devices", Listed(), program, {}), output, _PATIENCE) as record:
        find_devices(record.draft, backend, replay)


def find_devices(draft: Draft, backend: str | None, recorded: Path | None = None) -> None:
    """Take the devices of one backend, or of all, into a draft, and a map of each.

    Raises:
        AbsentError: there is none.
        SourceError: `recorded` is no report of devices.
    """
    from gpumap.backends import REGISTRY
    from gpumap.inventory import Inventory
    from gpumap.resolve import default_map

    if recorded is not None:
        from gpumap.app.replay import replay

        inventory, report = replay(draft, backend, recorded)
        names = [library.name for library in report.backends]
        draft.map, draft.source = report.map, report.source
    else:
        inventory = Inventory(draft.program.host(), backend)
        names = [name for name in REGISTRY if name != "fake"]
        inventory.hurry()
        inventory.ask([backend] if backend else names)
    probes = [inventory.probe(name) for name in ([backend] if backend else names)]
    draft.backends = tuple(probe.library for probe in probes)
    draft.remarks += inventory.host.notes
    draft.devices = tuple(device for probe in probes for device in probe.devices)
    if not draft.devices:
        reason, fix = probes[0].reason, probes[0].fix
        raise AbsentError(f"{probes[0].name}: {reason or 'no device'}", fix)
    if draft.map is None or backend:
        draft.map = default_map(inventory)
        draft.source = MapText(draft.map.text, "default")


# --- the maps in files, by their syntax alone; nothing beside Python's own library


def check_files(program: Program, files: Sequence[Path]) -> None:
    """Check every map of the files, which are named as they are given.

    Raises:
        Ended: one does not parse; what is wrong or odd has been said, file by file.
    """
    from pathlib import Path

    count, wrong = 0, False
    for path in files:
        found, problems = _checked(path, Path(program.cwd))
        count += found is not None
        wrong |= any(problem.severity == "error" for problem in problems)
        say(problems, program, found.text.rstrip("\n") if found else None)  # a file ends in one
    if wrong:
        raise Ended(Exit.QUESTION)
    text = f"{counted(count, 'map')} in {counted(len(files), 'file')}: well-formed.\n"
    program.stdout.write(text)


def _checked(path: Path, folder: Path) -> tuple[MapText | None, Sequence[Diagnostic]]:
    """Return the map of a file, if it has one, and all that is wrong or odd about it."""
    found = None
    try:
        found = sources.written(folder / path)
        diagnostics = parse_map(found.text).notes if found else ()
    except QuestionError as error:
        diagnostics = error.diagnostics
    return found, [_in_file(one, path, found) if found else one for one in diagnostics]


def _in_file(diagnostic: Diagnostic, path: Path, found: MapText) -> Diagnostic:
    """Return a diagnostic that says which file it is of; of a map alone, which line too."""
    place, span = str(path), diagnostic.span
    if found.origin == "@FILE" and span is not None:
        line = 1 + found.text.count("\n", 0, span.start)
        place += f", line {line}"
    return replace(diagnostic, message=f"{place}: {diagnostic.message}")
