"""A report for pipes and logs: no colour, no box characters, one line for each thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.diagnostics import SHOWN
from gpumap.report.table import PIPED, Table, paragraph
from gpumap.report.table import lines as layout
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Binding, Device, Probe, Report
    from gpumap.report import Style

DEVICE_COLUMNS = (
    "device", "name", "identity", "memory", "free", "units", "node", "cores", "hardware", "link",
    "driver",
)  # fmt: skip
RIGHT = ("memory", "free", "units", "node")


def render(report: Report, style: Style) -> str:
    """Return the report as plain text."""
    special = {"check": check, "devices": _devices, "doctor": _doctor}
    lines = special.get(report.kind, _measured)(report, room(style))
    return "".join(f"{line}\n" for line in (*above(report), *lines))


def above(report: Report) -> Iterator[str]:
    """Yield the headline; not of a wrong question: what stderr says of it is all that there is."""
    if report.status != "error":
        yield from headline(report)


def headline(report: Report) -> Iterator[str]:
    """Yield the answer, which comes first in every format."""
    if report.headline is not None:
        yield printable(report.headline.text)


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
    ref, name = printable(str(device.ref)), printable(device.name)
    line = f"Mapped name {printable(binding.name)} to device {ref}: {name}"
    if identity:
        line += f" ({printable(identity)})"
    return f"{line} (simulated)" if device.simulated else line


def check(report: Report, room: int | None) -> Iterator[str]:
    """Yield the lines of a check below its headline."""
    lines = list(checked(report))
    yield from lines
    yield from skipped(report)
    if not report.ranks:
        return
    from gpumap.report import roster

    for table in roster.tables(report):
        yield from [""] if lines else []
        yield from table_lines(table, room)


def checked(report: Report) -> Iterator[str]:
    """Yield what is true of each name of a map."""
    silent = any(note.code == "theano-silent" for note in report.notes)
    if not silent and report.status in ("ok", "no"):
        yield from (mapped_line(binding) for binding in report.bindings)


def skipped(report: Report) -> Iterator[str]:
    """Yield why nothing was measured, if that was allowed."""
    if report.status != "skipped":
        return
    for problem in report.errors[:SHOWN]:
        yield f"skipped: {printable(problem.diagnostic.message)}"
    if len(report.errors) > SHOWN:
        yield f"... and {len(report.errors) - SHOWN} more; --format json lists them all"


def disturbed(report: Report) -> Iterator[str]:
    """Yield what figures must not be read without: that other processes had the cores."""
    for note in report.notes:
        if note.code == "cpu-contention":
            yield f"{note.severity}: {printable(note.message)}"


def _measured(report: Report, room: int | None) -> Iterator[str]:
    from gpumap.report import rows  # a map that is checked has no figures

    yield from skipped(report)
    if not rows.told(report):
        return
    yield from _filled(disturbed(report), room)
    yield from map(mapped_line, mapped(report))
    if report.plans:
        yield ""
        yield from rows.plan(report)
        return
    for table in rows.tables(report, verbose=room is None):
        yield ""
        yield from table_lines(table, room)
    if footer := list(rows.footer(report)):
        yield from ("", *_filled(footer, room))


def _doctor(report: Report, room: int | None) -> Iterator[str]:
    from gpumap.report import diagnoses

    for found in report.diagnoses:
        yield diagnoses.head(found)
        yield from (f"  {line}" for line in diagnoses.lines(found))
        yield ""
    for table in diagnoses.tables(report.diagnoses):
        yield from table_lines(table, room)
        yield ""
    yield from diagnoses.remarks(report)


def table_lines(table: Table, room: int | None) -> Iterator[str]:
    """Yield a table, its title above and what is to be said of it below."""
    yield from paragraph(table.title, room)
    if table.rows:
        yield from (line.text for line in layout(table, room, whole=room is None))
    yield from _filled((f"  {line}" for line in table.remarks), room)


def _filled(lines: Iterable[str], room: int | None) -> Iterator[str]:
    for line in lines:
        yield from paragraph(line, room)


def _devices(report: Report, room: int | None) -> Iterator[str]:
    for probe in report.backends:
        yield from _backend(probe, room)
        yield ""
    if report.source is not None:
        yield paste_line(report)


def paste_line(report: Report) -> str:
    """Return the command that checks what was found, to paste into a shell."""
    text = report.source.text if report.source else ""
    scripted = any(device.backend == "fake" for device in report.devices)
    backend = " --backend fake" if scripted else ""
    return f'gpumap check "{printable(text)}"{backend}'


def _backend(probe: Probe, room: int | None) -> Iterator[str]:
    yield backend_line(probe)
    yield from (f"  note: {printable(note)}" for note in probe.notes if probe.usable)
    if probe.fix:
        yield f"  fix: {printable(probe.fix)}"
    if probe.devices:
        table = device_table(probe)
        yield from (line.text for line in layout(table, room, whole=room is None))


def device_table(probe: Probe) -> Table:
    """Return the devices of a backend, without columns of which nothing is known."""
    return Table("", DEVICE_COLUMNS, tuple(map(device_row, probe.devices)), (), right=RIGHT).full()


def backend_line(probe: Probe) -> str:
    """Return a backend's name, its version, and why it cannot be used if it cannot."""
    version = f" {printable(probe.version)}" if probe.version else ""
    reason = "" if probe.usable else f": not usable: {printable(probe.reason or 'no reason given')}"
    return f"{printable(probe.name)}{version}{reason}"


def device_row(device: Device) -> tuple[str, ...]:
    """Return what stands in DEVICE_COLUMNS; a dash where there is nothing to say."""
    identity = " ".join(i for i in (device.pci, device.uuid) if i)
    return (
        printable(str(device.ref)),
        printable(device.name),
        printable(identity) or "-",
        units.memory(device.memory_total),
        units.memory(device.memory_free),
        "-" if device.units is None else str(device.units),
        "-" if device.numa_node is None else str(device.numa_node),
        ranges(device.cores) or "-",
        printable(_hardware(device)),
        _link(device),
        printable(device.driver or "-"),
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
