"""A report for pipes and logs: no colour, no box characters, one line for each thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.report.diagnostics import SHOWN
from gpumap.report.table import PIPED, Table, paragraph
from gpumap.report.table import lines as layout
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Binding, Device, DeviceLibrary, Report
    from gpumap.report import Style

DEVICE_COLUMNS = (
    "device", "name", "identity", "memory", "free", "units", "node", "cores", "hardware", "link",
    "driver",
)  # fmt: skip
RIGHT = ("memory", "free", "units", "node")


class Part(NamedTuple):
    """A line of a report, and how it looks where there are colours."""

    text: str
    look: str = ""
    filled: bool = False  # in a pipe too: broken between words
    pasted: bool = False  # it is never broken


GAP = Part("", "gap")  # a blank line, which a terminal does without


def render(report: Report, style: Style) -> str:
    """Return the report as plain text."""
    text = "".join(f"{line}\n" for line in lines(parts(report, verbose=style.verbose), room(style)))
    return text if text.strip() else ""  # of a wrong question


def parts(report: Report, *, verbose: bool) -> Iterator[Part | Table]:
    """Yield the lines and tables of a report, in their order."""
    if report.status != "error":  # of a wrong question stderr says all that there is
        level = report.headline.level if report.headline else ""
        yield from (Part(line, level) for line in headline(report))
    special = {"check": check, "devices": _devices, "doctor": _doctor}
    yield from (
        special[report.kind](report)
        if report.kind in special
        else _measured(report, verbose=verbose)
    )


def lines(found: Iterable[Part | Table], room: int | None) -> Iterator[str]:
    """Yield parts as lines of text, a blank one before a table with a title."""
    for part in found:
        if isinstance(part, Table):
            yield from [""] if part.title else []
            yield from table_lines(part, room)
        else:
            yield from paragraph(part.text, room if part.filled else None)


def headline(report: Report) -> Iterator[str]:
    """Yield the answer, which comes first in every format."""
    if report.headline is not None:
        yield report.headline.text


def room(style: Style) -> int | None:
    """Return the columns of a line in a pipe, a file or a log; with -v as many as it takes."""
    return None if style.verbose else PIPED


def mapped(report: Report) -> Iterable[Binding]:
    """Return each name with its device: those of the map, or of all contexts of a program."""
    return report.bindings or dict.fromkeys(b for trace in report.traces for b in trace.bindings)


def mapped_line(binding: Binding) -> str:
    """Return Theano's line for a name, of the device as resolved; no blank where no id is."""
    device = binding.device
    identity = device.pci or device.uuid
    ref, name = str(device.ref), device.name
    line = f"Mapped name {binding.name} to device {ref}: {name}"
    if identity:
        line += f" ({identity})"
    return f"{line} (simulated)" if device.simulated else line


def check(report: Report) -> Iterator[Part | Table]:
    """Yield what a check shows below its headline."""
    yield from (Part(line, "ok") for line in checked(report))
    yield from skipped(report)
    if report.ranks:
        from gpumap.report import programs

        yield from programs.ranks(report)


def checked(report: Report) -> Iterator[str]:
    """Yield what is true of each name of a map."""
    silent = any(note.code == "theano-silent" for note in report.notes)
    if not silent and report.status in ("ok", "no"):
        yield from (mapped_line(binding) for binding in report.bindings)


def skipped(report: Report) -> Iterator[Part]:
    """Yield why nothing was measured, if that was allowed."""
    if report.status != "skipped":
        return
    for problem in report.errors[:SHOWN]:
        yield Part(f"skipped: {problem.diagnostic.message}", "unclear")
    if len(report.errors) > SHOWN:
        more = len(report.errors) - SHOWN
        yield Part(f"... and {more} more; --format json lists them all", "unclear")


def disturbed(report: Report) -> Iterator[str]:
    """Yield what figures must not be read without: that other processes had the cores."""
    for note in report.notes:
        if note.code == "cpu-contention":
            yield f"{note.severity}: {note.message}"


def _measured(report: Report, *, verbose: bool) -> Iterator[Part | Table]:
    from gpumap.report import rows  # a map that is checked has no figures

    yield from skipped(report)
    if not rows.has_tables(report):
        return
    yield from (Part(line, "below", filled=True) for line in disturbed(report))
    yield from (Part(mapped_line(binding), "ok") for binding in mapped(report))
    if report.plans:
        yield from (Part(line) for line in ("", *rows.plan(report)))
        return
    yield from rows.tables(report, verbose=verbose)
    if footer := list(rows.footer(report)):
        yield from (Part(line, "footer", filled=True) for line in ("", *footer))


def _doctor(report: Report) -> Iterator[Part | Table]:
    from gpumap.report import outcomes

    for found in report.diagnoses:
        yield from [] if found is report.diagnoses[0] else [GAP]
        yield Part(outcomes.verdict_line(found), found.verdict)
        yield from (Part(f"  {line}") for line in outcomes.finding_lines(found))
    yield from outcomes.examples(report.diagnoses)
    yield GAP
    yield from (Part(line, "bold") for line in outcomes.doctor_remarks(report))


def table_lines(table: Table, room: int | None) -> Iterator[str]:
    """Yield a table, its title above and what is to be said of it below."""
    yield from paragraph(table.title, room) if table.title else []
    if table.rows:
        yield from (line.text for line in layout(table, room, whole=room is None))
    for line in table.remarks:
        yield from paragraph(f"  {line}", room)


def _devices(report: Report) -> Iterator[Part | Table]:
    for backend in report.backends:
        yield Part(backend_line(backend), "bold" if backend.usable else "unclear")
        yield from (Part(f"  {line}") for line in about(backend))
        found = device_rows(report, backend)
        yield from [device_table(found)] if found else []
        yield Part("")
    if report.source is not None:
        yield Part(paste_line(report), "bold", pasted=True)


def about(backend: DeviceLibrary) -> Iterator[str]:
    """Yield what is to be said of a backend."""
    yield from (f"note: {note}" for note in backend.notes if backend.usable)
    if backend.fix:
        yield f"fix: {backend.fix}"


def paste_line(report: Report) -> str:
    """Return the command that checks what was found, to paste into a shell."""
    text = report.source.text if report.source else ""
    scripted = any(device.backend == "fake" for device in report.devices)
    backend = " --backend fake" if scripted else ""
    return f'gpumap check "{text}"{backend}'


def device_rows(report: Report, backend: DeviceLibrary) -> tuple[tuple[str, ...], ...]:
    """Return a row of cells for each device that a backend drives."""
    return tuple(device_row(each) for each in report.devices if each.backend == backend.name)


def device_table(found: tuple[tuple[str, ...], ...]) -> Table:
    """Return the devices of a backend, without columns of which nothing is known."""
    return Table("", DEVICE_COLUMNS, found, (), right=RIGHT).full()


def backend_line(backend: DeviceLibrary) -> str:
    """Return a backend's name, its version, and why it cannot be used if it cannot."""
    version = f" {backend.version}" if backend.version else ""
    reason = "" if backend.usable else f": not usable: {backend.reason or 'no reason given'}"
    return f"{backend.name}{version}{reason}"


def device_row(device: Device) -> tuple[str, ...]:
    """Return the texts of DEVICE_COLUMNS; a dash for a missing one."""
    identity = " ".join(i for i in (device.pci, device.uuid) if i)
    return (
        str(device.ref),
        device.name,
        identity or "-",
        units.memory(device.memory_total),
        units.memory(device.memory_free),
        "-" if device.units is None else str(device.units),
        "-" if device.numa_node is None else str(device.numa_node),
        ranges(device.cores) or "-",
        _hardware(device),
        _link(device),
        (device.driver or "-"),
    )


def _link(device: Device) -> str:
    """Return how a device is plugged in, ``PCIe 5 x16``; idle, it slows down but stays as wide."""
    generation, most = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
    if generation is None or most is None:
        return "-"
    width = device.facts.get("link_width", most)
    return f"PCIe {generation} x{width}" + (f" of x{most}" if width != most else "")


def _hardware(device: Device) -> str:
    """Return the hardware, numbered elements of one sort gathered: ``core:0-3``."""
    sorts: dict[str, list[int]] = {}
    others = []
    for element in sorted(device.hardware):
        sort, _, number = element.rpartition(":")
        if sort == "core" and number.isdigit():
            sorts.setdefault(sort, []).append(int(number))
        else:
            others.append(element)
    return " ".join([*(f"{sort}:{ranges(numbers)}" for sort, numbers in sorts.items()), *others])
