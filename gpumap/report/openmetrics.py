"""A report as OpenMetrics text, which Prometheus and node_exporter's textfile collector read.

Each metric is a gauge with its SI unit in its name, ``gpumap_time_seconds``, and the ends of its
interval are two more: ``gpumap_time_low_seconds`` and ``gpumap_time_high_seconds``. There is no
time in it, which the collector would refuse, and no type but gauge: it knows less than OpenMetrics
has. ``gpumap_exit_code`` tells how the run ended, whether or not it has figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.escape import printable
from gpumap.model.schema import meanings
from gpumap.report.trackers import Metric, Point, points

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.report import Style
    from gpumap.report.parts import Shown

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})  # a line break is an escape already
_LABELS = ("bench", "case", "names", "backend")  # of a record, beside the name of the series


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the figures as text that ends in ``# EOF``."""
    report = shown.report
    source = report.source.text if report.source else None
    run = _labels((("command", shown.title), ("map", source)))
    lines = [*_family(Metric("exit_code", "1"), "How the run ended.", [(run, report.exit_code)])]
    known = meanings()
    for metric, found in points(shown).items():
        meaning = known.get(metric.name, f"{metric.name}, as in CSV.")
        lines += _family(metric, meaning, [(_of(p), p.figure.value) for p in found])
        for end in ("low", "high"):
            ends = [(_of(p), getattr(p.figure, end)) for p in found if p.figure.has_interval]
            name = Metric(f"{metric.name}_{end}", metric.unit)
            lines += _family(name, f"The {end} end of the interval of {metric.name}.", ends)
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def _family(metric: Metric, meaning: str, samples: Sequence[tuple[str, float]]) -> Iterator[str]:
    if not samples:
        return
    name = f"gpumap_{metric.full}"
    yield f"# TYPE {name} gauge"
    if metric.suffix:
        yield f"# UNIT {name} {metric.suffix}"
    yield f"# HELP {name} {meaning}"
    yield from (f"{name}{labels} {_number(value)}" for labels, value in samples)


def _of(point: Point) -> str:
    return _labels((("name", point.name), *((key, point.record.cells.get(key)) for key in _LABELS)))


def _labels(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Return labels in braces; one without a value is one that is not there."""
    known = ((key, printable(value).translate(_ESCAPES)) for key, value in pairs if value)
    return "{" + ",".join(f'{key}="{value}"' for key, value in known) + "}"


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := repr(float(value)), text)
