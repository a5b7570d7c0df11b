"""What matplotlib writes, made a part of a page: its colours, ids that are its own, and short."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

# Stand-ins for colours, and the variables of the page that take their place.
INK, SOFT, RULE, PAGE = "#010203", "#010204", "#010205", "#010206"
SERIES = ("#020301", "#020302", "#020303", "#020304", "#020305", "#020306")
GOOD, UNCLEAR, BAD = "#030103", "#030102", "#030101"
TITLE = "title:"  # begins the id of a group that has a title: what its text is short for
_VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    RULE: "rule",
    PAGE: "page",
    GOOD: "good",
    UNCLEAR: "unclear",
    BAD: "bad",
    **{color: f"s{number}" for number, color in enumerate(SERIES, 1)},
}
_COLOR = re.compile("|".join(_VARIABLES))
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_FAMILY = re.compile(r"font-family:[^;]*;? ?")
_UNTURNED = re.compile(r"rotate\(-?0 [^)]*\)")
_WITH_NUMBERS = ("d", "x", "y", "transform", "points", "width", "height", "cx", "cy", "r")
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = ("metadata", "style")


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
    if old.startswith(TITLE):
        title = ET.Element("title")
        title.text = old.removeprefix(TITLE)
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
            found[key] = " ".join(_NUMBER.sub(_rounded, found[key]).split())
    if _UNTURNED.fullmatch(found.get("transform", "")):
        del found["transform"]


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")
