"""Charts as HTML: a picture with its name, and the same in text beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.page.text import breakable, items, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.report.charts.chart import Chart

_THEN = "Then `gpumap report FILE.json --format html` draws them. All figures stand in the text."


def figures(charts: Iterable[Chart]) -> Iterator[str]:
    """Yield each chart; without matplotlib, how to get it, and what they would have shown."""
    from gpumap.report.charts.paper import missing, picture

    found = list(charts)
    why = missing() if found else None
    if why is not None:
        yield f'<p class="notice">{shown(f"Charts need matplotlib, {why}. {_THEN}")}</p>'
    for number, chart in enumerate(found, 1):
        title = shown(chart.title)
        yield f'<figure aria-labelledby="figure-{number}">'
        if why is None:
            svg = picture(chart, f"chart-{number}").removeprefix("<svg ")
            yield f'<svg role="img" aria-label="{title}" {svg}'
        yield "<figcaption>"
        yield f'<h3 id="figure-{number}">{breakable(chart.title)}</h3>'
        yield from items(chart.told, "numbers")
        yield "</figcaption>"
        yield "</figure>"
