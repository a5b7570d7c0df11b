"""A report as one page of HTML that needs nothing else: no network, no other file.

The answer comes first, then charts, tables and the machine. The templates beside this file escape
every text; their output is XML too, so that a test can check that each element is closed. The
colour of the banner tells whether the data of a run can be trusted.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.resources import files
from shlex import join
from typing import TYPE_CHECKING, Any

from gpumap.errors import SourceError
from gpumap.escape import printable
from gpumap.extras import pip
from gpumap.judge.inconclusive import too_few
from gpumap.report import Style, outcomes, plain, rows
from gpumap.report.charts import charts
from gpumap.report.diagnostics import SHOWN, folded, left_out, more, place
from gpumap.report.table import RIGHT, Table
from gpumap.units import counted
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jinja2 import Environment
    from markupsafe import Markup

    from gpumap.model import Binding, Report
    from gpumap.report.charts import Chart

_COLORS = {"good": "good", "below": "unclear", "untrusted": "unclear", "failed": "bad"}
_IN_DIAGNOSES = "diagnosis"  # an error that says what a diagnosis does
_RIGHT = frozenset((*RIGHT, *plain.RIGHT, "to the first"))
_ID, _LONG = 24, 48  # characters: longer ids, and texts, may be broken into lines
_TONES = {
    "good": "ok pass improvement used",
    "unclear": "unstable inconclusive skipped partly noisy few",
    "bad": "failed fail regression missing new not no error absent wrong-data timeout interrupted "
    "internal",
}
_TONE = {word: tone for tone, words in _TONES.items() for word in words.split()}


def doubts(report: Report) -> list[str]:
    """Return why figures of a run are not to be trusted: contention, few samples, flags."""
    return [*plain.disturbed(report), *_of_rows(report)]


def _of_rows(report: Report) -> Iterator[str]:
    shown = [] if report.plans else [row for row in rows.shown(report) if row.status == "ok"]
    if thin := sum(map(too_few, shown)):
        yield f"{thin} of {len(shown)} rows have fewer than 6 samples, and so no interval"
    counts = Counter(flag for row in shown for flag in row.flags)
    for flag, count in counts.most_common():
        yield f"{count} of {len(shown)} rows: {flag}"


def color(report: Report) -> str:
    """Return the class of the banner: green only of good data, red where the run failed."""
    level = report.headline.level if report.headline else "failed"
    if outcomes.of_run(report).state == "failed" and report.status != "inconclusive":
        level = "failed"
    return _COLORS["untrusted" if level == "good" and doubts(report) else level]


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as a page."""
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    passed = [p.diagnostic for p in report.errors if p.exit == 0]
    tabled = not report.plans and rows.has_tables(report)  # else of devices, a plan, a check
    about = report.argv[:2] if report.kind == "bench" else (report.kind,)
    return _page(
        "report.html.j2",
        charts(report) if tabled else (),
        report=report,
        outcomes=outcomes,
        headline=next(plain.headline(report), f"{report.kind}: {report.status}"),
        color=color(report),
        doubts=doubts(report),
        title=" ".join(("gpumap", *(about or (report.kind,)))),
        command=join(report.argv),
        errors=[found for found in wrong if found.code != _IN_DIAGNOSES],
        notes=[*passed, *report.notes],
        verdicts=rows.verdicts(report),
        devices=list(_devices(report)) if report.kind == "devices" else (),
        paste=plain.paste_line(report),
        plan=rows.plan(report) if report.plans else (),
        found=rows.figures(report) if tabled else (),
        method=rows.footer(report) if tabled else (),
        every=outcomes.every(report.measurements),
        checked=plain.lines(plain.check(report), None) if report.kind == "check" else (),
        names=_names(list(plain.mapped(report))),
        machine=_machine(report),
    )


def several(about: str, drawn: Iterable[Chart], found: Iterable[Table]) -> str:
    """Return a page of several reports; `about` says of how many, and in which order."""
    return _page("several.html.j2", drawn, about=about, found=map(_whole, found))


# --- parts of a page ---------------------------------------------------------------------------
def _devices(report: Report) -> Iterator[Table]:
    """Yield the devices of each backend, and what is to be said of it."""
    for backend in report.backends:
        found, remarks = plain.device_rows(report, backend), tuple(plain.about(backend))
        yield Table(plain.backend_line(backend), plain.DEVICE_COLUMNS, found, remarks)


def _names(found: list[Binding]) -> list[Table]:
    """Return the names with their devices, without columns that are empty."""
    if not found:
        return []
    columns = ("name", *plain.DEVICE_COLUMNS[:1], "is", *plain.DEVICE_COLUMNS[2:])
    lines = tuple((b.name, *plain.device_row(b.device)) for b in found)
    return [Table("names and their devices", columns, lines, ()).full()]


def _machine(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what tells the machine from another one, and how busy it was."""
    found = report.fingerprint
    if found is not None:
        yield "processor", f"{found.cpu}, {counted(found.cores, 'core')}"
        yield "system", found.os
        yield "Python", found.python
        yield "libraries", ", ".join(f"{name} {v}" for name, v in found.libraries.items())
        yield "drivers", ", ".join(f"{name} {v}" for name, v in found.drivers.items())
        yield "links", ", ".join(found.links)
        variables = (f"{k}={v}" for k, v in report.environment.items() if v is not None)
        yield "environment", " ".join(variables)
        yield "fingerprint", found.hash


def _whole(table: Table) -> Table:
    """Return a table of which each row names its subject, not only the first."""
    found, before = [], ""
    for row in table.rows:
        before = row[0] or before
        found.append((before, *row[1:]))
    return table._replace(rows=tuple(found))


# --- templates ---------------------------------------------------------------------------------
def _page(template: str, drawn: Iterable[Chart], **parts: Any) -> str:
    """Return a page in ASCII: it is the same in whatever encoding it is written."""
    from gpumap.report.charts.paper import missing

    found = list(drawn)
    why = missing() if found else None
    text = _environment().get_template(template).render(charts=found, missing=why, **parts)
    return text.encode("ascii", "xmlcharrefreplace").decode()


@cache
def _environment() -> Environment:
    """Return the templates: each text that they show is printable, and then escaped."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        install = pip("install", "jinja2")
        raise SourceError("a page needs Jinja, which is not installed", install) from error

    found = Environment(
        autoescape=True,
        finalize=lambda text: printable(text) if type(text) is str else text,
        keep_trailing_newline=True,
        loader=FunctionLoader(_part),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    found.globals |= {
        "css": Markup(_part("page.css")),  # noqa: S704 - a file of ours
        "policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        "place": place,
        "SHOWN": SHOWN,
        "folded": folded,
        "left_out": left_out,
        "more": more,
        "version": __version__,
    }
    found.filters |= {
        "breakable": _breakable,
        "classed": _classed,
        "classes": _classes,
        "picture": _picture,
        "tone": _tone,
    }
    return found


def _part(name: str) -> str:
    """Return a file beside this one."""
    return files("gpumap.report.html").joinpath(name).read_text(encoding="utf-8")


def _breakable(text: str) -> str | Markup:
    """Return a text; if it is long, a line may end behind its commas: ids have no blanks."""
    from markupsafe import Markup, escape

    if len(text) <= (_LONG if " " in text else _ID):
        return text
    found = str(escape(printable(text)))
    return Markup(found.replace(",", ",<wbr />").replace("+", "+<wbr />"))  # noqa: S704 - escaped


def _classed(name: str) -> Markup:
    from markupsafe import Markup

    return Markup(' class="{}"').format(name) if name else Markup("")


def _classes(table: Table) -> list[str]:
    """Return the class of each column: figures are on the right, long texts in several lines."""
    return [
        "n" if name in _RIGHT else "long" if any(len(row[n]) > _LONG for row in table.rows) else ""
        for n, name in enumerate(table.columns)
    ]


def _tone(word: str) -> str:
    """Return the class that colours a word which says how something ended; nothing for others."""
    return _TONE.get(word.partition(" ")[0], "")


def _picture(chart: Chart, number: int) -> Markup:
    from markupsafe import Markup

    from gpumap.report.charts.paper import picture

    opening = Markup('<svg role="img" aria-label="{}" ').format(printable(chart.title))
    svg = picture(chart, f"chart-{number}").removeprefix("<svg ")
    return opening + Markup(svg)  # noqa: S704 - XML of the standard library, which escaped it
