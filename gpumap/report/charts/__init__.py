"""A chart: what is to be drawn, with its text.

Only `paper` draws, by matplotlib: where that is missing there is the text all the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree as ET

from gpumap import units
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Estimate, Measurement


MOST = 6  # charts of a kind


def capped(found: list[Chart]) -> list[Chart]:
    """Return the first MOST charts; the last one says how many are left out."""
    if len(found) <= MOST:
        return found
    last = found[MOST - 1].noting(f"of {len(found)} such figures the first {MOST} are drawn")
    return [*found[: MOST - 1], last]


T = TypeVar("T")
_LARGEST, _SMALLEST = 1e30, 1e-30  # beyond, a file was edited: no chart has room for it
_FAR = 3.0  # times the distance of quartiles: Tukey's outer fence


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture to be drawn, `height` high; `lines` say in text what it shows."""

    title: str
    lines: tuple[str, ...]
    height: float
    draw: Callable[[Any], None]  # on a figure of matplotlib

    def noting(self, text: str) -> Chart:
        """Return the chart with one more thing said of it."""
        return replace(self, lines=(*self.lines, text))


def drawable(*figures: Estimate | None) -> bool:
    """Return whether figures have a place on an axis: above zero, and of this world."""
    return all(f and _SMALLEST < f.value < _LARGEST for f in figures)


def reach(values: Sequence[float], base: float | None = None) -> tuple[float, float]:
    """Return the ends of an axis, by quartiles: an outlier does not flatten the rest.

    Of an axis that starts at `base`, the rest keeps a quarter.
    """
    if len(values) < 2:  # noqa: PLR2004 - there is no other
        return min(values), max(values)
    first, _, last = quantiles(values, method="inclusive")
    room = _FAR * (last - (first if base is None else base)) or math.inf
    return max(min(values), first - room), min(max(values), last + room)


def first(found: Sequence[T], most: int, words: str) -> tuple[Sequence[T], list[str]]:
    """Return what there is room for, and what is to be said of the others."""
    more = [f"the first {most} of {len(found)} {words}"] if len(found) > most else []
    return found[:most], more


def counted(row: Measurement, figure: Estimate) -> str:
    """Return the remark after a figure without an interval: how few samples it has."""
    if figure.has_interval or row.samples is None:
        return ""
    return f" ({units.counted(len(row.samples.seconds), 'sample')})"


def ends(figure: Estimate) -> tuple[float, float]:
    """Return the interval of a figure, an end that is infinite or unknown brought near."""
    low = figure.low if math.isfinite(figure.low) else figure.value
    high = figure.high if math.isfinite(figure.high) else figure.value
    return max(low, figure.value / 100), min(high, figure.value * 100)


def short(value: float, unit: str) -> str:
    """Return a figure without the zeros that an axis does not need: ``1 ms``, ``250 kB``."""
    number, blank, rest = units.single(value, unit).partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{blank}{rest}"


# Stand-ins for colours, and the variables of the page that take their place.
INK, SOFT, RULE, PAGE = "#010203", "#010204", "#010205", "#010206"
SERIES = ("#020301", "#020302", "#020303", "#020304", "#020305", "#020306")
_TITLE = "title:"  # begins the id of a group that has a title: what its text is short for
_VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    RULE: "rule",
    PAGE: "page",
    **{color: f"s{number}" for number, color in enumerate(SERIES, 1)},
}
_COLOR = re.compile("|".join(_VARIABLES))
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_FAMILY = re.compile(r"font-family:[^;]*;? ?")
_UNTURNED = re.compile(r"rotate\(-?0 [^)]*\)")
_WITH_NUMBERS = ("d", "x", "y", "transform", "points", "width", "height", "cx", "cy", "r")
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = ("metadata", "style")


def titled(title: str) -> str:
    """Return the id of a group that has a title."""
    return f"{_TITLE}{printable(title)}"


def tidied(text: str, name: str) -> str:
    """Return an SVG as one line, to stand in a page: hidden from readers, who get its name."""
    root = ET.fromstring(text)  # noqa: S314 - matplotlib has just made it
    _prune(root)
    used = _referenced(root)
    names = {old: f"{name}-{number}" for number, old in enumerate(used, 1)}
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        _shorten(element, names)
    _unwrap(root)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    return ET.tostring(root, encoding="unicode").replace("\n", " ").strip()


def _prune(parent: ET.Element) -> None:
    for child in list(parent):
        if child.tag.rpartition("}")[2] in _DROPPED:
            parent.remove(child)
        else:
            _prune(child)
            if child.tag.rpartition("}")[2] != "text":
                child.text = None
            child.tail = None


def _unwrap(parent: ET.Element) -> None:
    """Replace groups without attributes by their content."""
    found = []
    for child in parent:
        _unwrap(child)
        bare = child.tag == "g" and not child.attrib and child.find("title") is None
        empty = child.tag in ("g", "defs") and not len(child)
        found += list(child) if bare else [] if empty else [child]
    parent[:] = found


def _referenced(root: ET.Element) -> list[str]:
    """Return the ids that something of the picture refers to, in their order."""
    whole = " ".join(v for element in root.iter() for v in element.attrib.values())
    hrefs = [element.attrib[_HREF][1:] for element in root.iter() if _HREF in element.attrib]
    return list(dict.fromkeys([*hrefs, *re.findall(r"url\(#([^)]+)\)", whole)]))


def _shorten(element: ET.Element, names: dict[str, str]) -> None:
    found = element.attrib
    old = found.pop("id", "")
    if old in names:
        found["id"] = names[old]
    if old.startswith(_TITLE):
        title = ET.Element("title")
        title.text = old.removeprefix(_TITLE)
        element.insert(0, title)
    if _HREF in found:
        found["href"] = f"#{names[found.pop(_HREF)[1:]]}"
    if "clip-path" in found:
        found["clip-path"] = f"url(#{names[found['clip-path'][5:-1]]})"
    if "style" in found:
        style = _FAMILY.sub("", found["style"])  # the page's
        found["style"] = _COLOR.sub(lambda match: f"var(--{_VARIABLES[match[0]]})", style)
    for key in _WITH_NUMBERS:
        if key in found:
            short = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), found[key])
            found[key] = " ".join(short.split())
    if _UNTURNED.fullmatch(found.get("transform", "")):
        del found["transform"]
