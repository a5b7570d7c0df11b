"""Texts of tests/expected: what varies is masked, the rest compared line by line, or renewed.

`make expected` writes every file anew. Read the difference before it is kept: it is what users
will see changed.
"""

import difflib
import re
from math import fsum
from pathlib import Path
from xml.etree import ElementTree as ET

FOLDER = Path(__file__).with_name("expected")
RENEWED = "run `make expected`, and read the difference before it is kept"
LONGEST = 200  # lines of a difference that are shown
ROUNDING = 1e-14  # no figure of a report is so small
MANY = 4  # values of an array that are written one by one

SLOW = r"^gpumap: [^\n]*, \d+ s of [^\n]* s\n"  # said every 30 seconds
KEYS = "cpu|os|python|hash|load1|steal|busy|others|elapsed_s|max_error|sha256"
MASKS = (  # patterns of what differs between runs or machines, and what takes its place
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>"),  # when it ran
    (r'("(libraries|environment)": )\{[^{}]*\}', r"\1<here>"),  # of the machine
    (r'("others": )\{.*?\n {4}\}', r"\1<here>"),  # other processes of the machine
    (rf'^( *"({KEYS})": )(?!\{{).*?(,?)$', r"\1<here>\3"),  # of the machine, or real time
    (r'("cores": )\d+', r"\1<here>"),  # of the machine
    (r"sha256:[0-9a-f]{12,64}", "sha256:<hash>"),  # a hash of the machine's name and versions
    (r"(?<=\d)\.\d{3} < 1\b", ".### < 1"),  # a rounding error is the BLAS's
    (r'(<testsuites[^>]* time=)"[\d.]+"', r'\1"<seconds>"'),  # real time
    (r'("gpumap\.[^.]*\.run"[^\n]*? time=)"[\d.]+"', r'\1"<seconds>"'),  # real time
    (r"^( +span: )[\d.]+ s$", r"\1<seconds>"),  # real time, on a page
    (r"^( +(processor|system|Python|libraries)): .*?$", r"\1: <here>"),  # of the machine
    (r"^ +environment: .*?\n", ""),  # of the machine, and only where a variable is set
    (r"\bOMP_NUM_THREADS=\d+", "OMP_NUM_THREADS=<share>"),  # of the machine's cores
    (r"\bin \d+\.\d s\.", "in <seconds>."),  # real time, of a preflight
    (SLOW, ""),  # of a machine with other work
    (r"\b(MASTER_PORT|GPUMAP_RUN)=\w+", r"\1=<chosen>"),  # by chance
)
WIDE = 100  # columns of a line of JSON
_ARRAY = re.compile(r"\[[^\[\]{}\n]*\]")
_NUMBER = re.compile(r"-?\d[\d.e+-]*")
_FLOAT = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?|-?\d+e[+-]?\d+")


def masked(text, places, version):
    for path, word in places.items():
        text = text.replace(str(path), word)
    text = text.replace(version, "<version>")
    for pattern, put in MASKS:
        text = re.sub(pattern, put, text, flags=re.MULTILINE | re.DOTALL)
    return text


def rounded(text, digits):
    """Return a text of fewer digits, rounding errors as 0: the last ones are a processor's own."""

    def short(found):
        value = float(found[0])
        return f"{value if abs(value) > ROUNDING else 0.0:.{digits}g}"

    return _FLOAT.sub(short, text)


def folded(text):
    """Return JSON of fewer digits, lines and values.

    Lines are filled up to WIDE columns. Of a long array of numbers there are the ends, and the
    sum: equal ones are written once.
    """
    text = _ARRAY.sub(_shortened, rounded(text, 6))
    blocks = [[]]  # those that are open, each with its lines
    for line in text.splitlines():
        if line.endswith(("{", "[")):
            blocks.append([line])
        elif line.strip(" ,") in ("}", "]"):
            first, *within = blocks.pop()
            blocks[-1] += _block(first, _filled(within), line)
        else:
            blocks[-1].append(line)
    return "\n".join(blocks[0]) + "\n"


def _filled(lines):
    """Return lines of one depth filled up to WIDE columns; what is deeper stays as it is."""
    result = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        before = result[-1] if result else ""
        joined = f"{before} {line.strip()}"
        alike = before.endswith(",") and len(before) - len(before.lstrip()) == depth
        if alike and len(joined) <= WIDE and not line.endswith(("{", "[")):
            result[-1] = joined
        else:
            result.append(line)
    return result


def _block(first, within, last):
    """Return the lines of an object or a list; as one, where that is no longer than WIDE."""
    whole = f"{first}{within[0].strip()}{last.strip()}" if len(within) == 1 else ""
    return [whole] if 0 < len(whole) <= WIDE else [first, *within, last]


def _shortened(found):
    values = found[0][1:-1].split(", ")
    if len(values) <= MANY or any(_NUMBER.fullmatch(value) is None for value in values):
        return found[0]
    if len(set(values)) == 1:
        return f"[{values[0]}, {len(values)} times]"
    sum_ = fsum(map(float, values))  # the same in every Python
    return f"[{values[0]}, {values[1]} ... {values[-1]}: {len(values)} values, sum {sum_:.6g}]"


def outline(page):
    """Return the elements and the words of a page of HTML, without its style and its drawings."""
    tree = ET.fromstring(page.replace("<wbr />", ""))  # noqa: S314 - gpumap has made it
    return "".join(f"{line}\n" for line in _outlined(tree, 0))


def _outlined(element, depth):
    tag = element.tag.rpartition("}")[2]
    given = "".join(
        f" {key}={value!r}" for key, value in element.items() if key in ("id", "class", "role")
    )
    if tag in ("style", "script"):
        return
    if tag == "svg":
        yield f"{'  ' * depth}svg {element.get('aria-label', '')}"
        return
    if tag == "tr":
        cells = (" ".join("".join(cell.itertext()).split()) for cell in element)
        yield f"{'  ' * depth}tr: {' | '.join(cells)}"
        return
    if [child.tag.rpartition("}")[2] for child in element] == ["dt", "dd"]:
        yield f"{'  ' * depth}{': '.join(' '.join(''.join(c.itertext()).split()) for c in element)}"
        return
    words = " ".join((element.text or "").split())
    yield f"{'  ' * depth}{tag}{given}{': ' if words else ''}{words}"
    for child in element:
        yield from _outlined(child, depth + 1)
        if after := " ".join((child.tail or "").split()):
            yield f"{'  ' * (depth + 1)}{after}"


def held(name, text, *, renew):
    path = FOLDER / f"{name}.txt"
    if renew:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != before:
        names = str(path.relative_to(FOLDER.parent)), "what there is now"
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), *names, lineterm="")
        shown = list(lines)
        more = [f"... {len(shown) - LONGEST} more lines"] if len(shown) > LONGEST else []
        raise AssertionError("\n".join([RENEWED, *shown[:LONGEST], *more]))
