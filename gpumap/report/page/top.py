"""What a page begins with: how the run ended, what was asked, the map and the machine."""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING

from gpumap.report import plain
from gpumap.report.page.tables import tables
from gpumap.report.page.text import described, items, shown, tone
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Binding, Report

_NONE = "-"
_SHORT = 19  # characters of a fingerprint: sha256: and twelve more


def title(report: Report) -> str:
    """Return what was run: a command, and the benchmark where it is one."""
    words = report.argv[:2] if report.kind == "bench" else ()
    return " ".join(("gpumap", *(words or (report.kind,))))


def top(report: Report) -> Iterator[str]:
    """Yield the heading of a run."""
    yield '<header class="top">'
    yield from (f'<p class="headline">{shown(line)}</p>' for line in plain.headline(report))
    yield f"<h1>{shown(title(report))}</h1>"
    status = shown(report.status)
    yield '<p class="outcome">'
    yield f'<span class="state {tone(report.status) or "bad"}">{status}</span>'
    yield f"<span>exit code {report.exit_code}</span>"
    yield f'<time datetime="{shown(report.started)}">{shown(report.started)}</time>'
    yield f"<span>{report.elapsed:.1f} s</span>"
    yield "</p>"
    yield f'<p class="command">$ gpumap {shown(join(report.argv))}</p>'
    yield "</header>"


def simulated(report: Report) -> Iterator[str]:
    """Yield what the figures of a scripted run must not be read without."""
    if report.simulated:
        yield (
            '<p class="notice">Simulated: every figure is scripted, none was measured '
            "(the fake backend).</p>"
        )


def mapped(report: Report) -> Iterator[str]:
    """Yield the map: each name, and the device that it really is."""
    if report.source is not None:
        yield f"<p><code>{shown(report.source.text)}</code> ({shown(report.source.origin)})</p>"
    found = list(plain.mapped(report))
    yield from tables([_names(found)] if found else [], plain.RIGHT)


def checked(report: Report) -> Iterator[str]:
    """Yield what a check says of a map, word for word."""
    if report.kind == "check":
        from gpumap.report import Style

        above = len(list(plain.above(report)))
        yield from items(plain.render(report, Style()).splitlines()[above:], "lines")


def _names(found: list[Binding]) -> Table:
    """Return the names with their devices, without columns that say nothing."""
    columns = ("name", *plain.DEVICE_COLUMNS[:1], "is", *plain.DEVICE_COLUMNS[2:])
    rows = [(b.name, *plain.device_row(b.device)) for b in found]
    kept = [n for n in range(len(columns)) if any(row[n] != _NONE for row in rows)]
    cells = tuple(tuple(row[n] for n in kept) for row in rows)
    return Table("names and their devices", tuple(columns[n] for n in kept), cells, ())


def machine(report: Report) -> Iterator[str]:
    """Yield what tells the machine from another one, and how busy it was."""
    found = report.fingerprint
    if found is None:
        return
    cores = f"{found.cores} {'core' if found.cores == 1 else 'cores'}"
    libraries = [f"{name} {version}" for name, version in found.libraries.items()]
    drivers = [f"{name} {version}" for name, version in found.drivers.items()]
    variables = [f"{k}={v}" for k, v in report.environment.items() if v is not None]
    yield from described((
        ("processor", f"{found.cpu}, {cores}"),
        ("system", found.os),
        ("Python", found.python),
        ("libraries", ", ".join(libraries)),
        ("drivers", ", ".join(drivers)),
        ("links", ", ".join(found.links)),
        ("environment", " ".join(variables)),
        ("fingerprint", found.hash[:_SHORT]),
    ))  # fmt: skip
