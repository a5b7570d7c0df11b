"""The map: text to `ContextMap`.

    map    = entry { ";" entry }
    entry  = name "->" device              blanks (space, tab, newline) on either side are dropped
    name   = printable { printable }       no "->", no ";"; not a device: not "cuda..." nor
                                           "opencl...", not "cpu" + digits, and no other device
    device = "cuda" [ index | "@" identity ]
           | ( "rocm" | "xpu" | "tpu" ) [ index ] | "mps"
           | "opencl" index ":" index [ "." index ]
           | "cpu" [ index ]               the words and their forms: `gpumap.kinds`
    index  = "0" | nonzero { digit }       ASCII digits, at most 65535
    identity = PCI bus id | UUID           0000:09:00.0, GPU-8-4-4-4-12 or MIG-... in hexadecimal

Every problem is reported at once. `parse_map(str(m)) == m` for every map that parses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.errors import Diagnostic, MapError, Span
from gpumap.kinds import KINDS, Kind
from gpumap.model import ContextMap, DeviceRef, Entry
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLANKS = " \t\r\n"
INDEX_MAX = 65535

_INDEX = "(?:0|[1-9][0-9]*)"
_LISTED = 15  # commas of a list of devices: what has more is none, and takes time
_SPELLED = 60  # characters: what is longer is no slip
_DEVICE = re.compile(
    rf"(?P<kind>{'|'.join(KINDS)})(?:"
    rf"(?P<platform>{_INDEX}):(?P<device>{_INDEX})(?:\.(?P<part>{_INDEX}))?"
    rf"|(?P<index>{_INDEX})|@(?P<identity>.*))?",
    re.DOTALL,
)
_HEX = "[0-9a-fA-F]"
_PCI = rf"(?:({_HEX}{{4,8}}):)?({_HEX}{{2}}:{_HEX}{{2}}\.[0-7])"  # compiled when one is there
_UUID_BODY = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_UUID = rf"(GPU-|MIG-(?:GPU-)?)({_UUID_BODY})((?:/[0-9]+/[0-9]+)?)"
_FORMS = ("platform", "index", "identity")
_RESERVED = re.compile("|".join(kind + row.taken for kind, row in KINDS.items()), re.DOTALL)
# Spellings that every kind with an index has in other programs, behind those of its own row.
_EVERY = (
    ("{}0+([0-9]+)", "an index has no leading zeros"),
    ("/?(?:device:)?{}\\s*[:_ +-]?\\s*([0-9]+)", "lower case, no separator"),
    ("{}()", "lower case"),
)
_ARROWS = ("=>", "→", "⇒", "- >", "=", ">", ":")


def parse_map(text: str) -> ContextMap:
    """Parse a map, or raise one `MapError` that carries every problem in it.

    Args:
        text: the map, such as ``dev0->cuda0;dev1->cuda1``.

    Raises:
        MapError: with one diagnostic for each problem; each span lies inside `text`. Also for
            what is no text.
    """
    if not isinstance(text, str):
        raise MapError((_no_text(text),))
    entries: list[Entry] = []
    problems: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    if not text.strip(BLANKS):
        raise MapError((_empty_map(text),), text)
    for number, part in enumerate(_parts(text), 1):
        parsed = _entry(text, part, number)
        if isinstance(parsed, Entry):
            entries.append(parsed)
            if " " in parsed.name:
                notes.append(_inner_space(parsed, number))
        else:
            problems += parsed
    if problems or len({entry.name for entry in entries}) < len(entries):
        problems += _repeated(text)
    if problems:
        raise MapError(tuple(sorted(problems, key=lambda p: p.entry or 0)), text)
    return ContextMap(tuple(entries), text, tuple(notes))


def _no_text(given: object) -> Diagnostic:
    message = f"the map is {type(given).__name__}, not text"
    return Diagnostic("map", message, hint='write it as text: "dev0->cuda0"')


def _empty_map(text: str) -> Diagnostic:
    hint = 'name at least one device: "dev0->cuda0"'
    return Diagnostic("empty-map", "the map is empty", span=Span(0, len(text)), hint=hint)


def _inner_space(entry: Entry, number: int) -> Diagnostic:
    message = f'the name "{cut(entry.name)}" has a space inside'
    hint = "legal here and in Theano; quote it wherever a shell sees it"
    return Diagnostic("inner-space", message, number, entry.span, hint, "note", entry.name)


def _parts(text: str) -> Iterator[Span]:
    start = 0
    for part in text.split(";"):
        yield _stripped(text, start, start + len(part))
        start += len(part) + 1


def _stripped(text: str, start: int, stop: int) -> Span:
    part = text[start:stop].lstrip(BLANKS)
    start = stop - len(part)
    return Span(start, start + len(part.rstrip(BLANKS)))


def _entry(text: str, part: Span, number: int) -> Entry | list[Diagnostic]:
    """Rule: entry = name "->" device."""
    arrow = text.find("->", part.start, part.stop)
    if arrow < 0:
        return [_no_arrow(text, part, number)]
    second = text.find("->", arrow + 2, part.stop)
    if second >= 0:
        return [_two_arrows(text, part, Span(second, second + 2), number)]
    name = _stripped(text, part.start, arrow)
    device = _stripped(text, arrow + 2, part.stop)
    ref = _device(text, device, number)
    problems = [p for p in (_name_problem(text, name, number), ref) if isinstance(p, Diagnostic)]
    if problems or isinstance(ref, Diagnostic):
        return problems
    return Entry(text[name.start : name.stop], ref, part)


def _name_problem(text: str, span: Span, number: int) -> Diagnostic | None:
    name = text[span.start : span.stop]
    if not name:
        hint = 'write one: "dev0->..."'
        return Diagnostic("empty-name", 'no name before "->"', number, span, hint)
    if not name.isprintable():
        message = f'the name "{cut(name)}" has characters that cannot be printed'
        hint = "use letters, digits and punctuation only"
        return Diagnostic("unprintable-name", message, number, span, hint)
    if _RESERVED.fullmatch(name):
        message = f'"{cut(name)}" cannot be a name: it reads like a device'
        hint = f'choose another, such as "dev{number - 1}"'
        return Diagnostic("reserved-name", message, number, span, hint)
    return None


def _device(text: str, span: Span, number: int) -> DeviceRef | Diagnostic:
    """Rule: device = "cuda" ... | "opencl" ... | "cpu" ...; see the module's grammar."""
    device = text[span.start : span.stop]
    if (group := _parts_of(device)) is None:
        return _unknown_device(device, span, number)
    kind = Kind(group["kind"] or "")
    if group["identity"] is not None:
        return _identified(kind, group["identity"], span, number)
    numbers = [group[key] for key in ("platform", "device", "index", "part")]
    if _has_high_index(numbers):
        message = f'an index in "{cut(device)}" is above {INDEX_MAX}'
        hint = "`gpumap devices` lists the devices that are there"
        return Diagnostic("index-range", message, number, span, hint)
    platform, cl_device, index, part = (None if n is None else int(n) for n in numbers)
    return DeviceRef(kind, index if platform is None else cl_device, platform, part)


def _parts_of(device: str) -> dict[str, str | None] | None:
    """Return the parts of a device as the grammar has it; None if it is none."""
    if (match := _DEVICE.fullmatch(device)) is None:
        return None
    group = match.groupdict()
    form = next((form for form in _FORMS if group[form] is not None), "")
    return group if form in Kind(match["kind"]).row.forms else None


def _identified(kind: Kind, identity: str, span: Span, number: int) -> DeviceRef | Diagnostic:
    """Rule: identity = PCI bus id | UUID, brought to the one spelling that CUDA prints."""
    if canonical := canonical_identity(identity):
        return DeviceRef(kind, identity=canonical)
    message = f'"{cut(identity)}" is neither a PCI bus id nor a UUID'
    hint = "write it as the driver prints it: cuda@0000:09:00.0 or cuda@GPU-... (nvidia-smi -L)"
    return Diagnostic("bad-identity", message, number, span, hint)


def canonical_identity(text: str) -> str | None:
    """Return a PCI bus id or UUID in the spelling that CUDA prints, or None if it is neither.

    NVML pads the PCI domain to eight digits where CUDA prints four; both mean the same device.
    """
    if (pci := re.fullmatch(_PCI, text)) is not None:
        domain = (pci[1] or "").lstrip("0").lower()
        return f"{domain:0>4}:{pci[2].lower()}"
    if (uuid := re.fullmatch(_UUID, text)) is not None:
        return f"{uuid[1]}{uuid[2].lower()}{uuid[3]}"
    return None


def _unknown_device(device: str, span: Span, number: int) -> Diagnostic:
    if not device:
        hint = f"write one: {_examples()}"
        return Diagnostic("empty-device", 'no device after "->"', number, span, hint)
    message = f'"{cut(device)}" is not a device'
    return Diagnostic("unknown-device", message, number, span, _device_hint(device))


def _device_hint(device: str) -> str:
    if (identity := canonical_identity(device)) is not None:
        return f"an identity stands after cuda@: write cuda@{identity}"
    if "," in device:
        return 'entries are separated by ";", not ","'
    if (respelled := _respelled(device)) is not None:
        return f"{respelled[1]}: write {respelled[0]}"
    return f"write {_examples()}"


def _examples() -> str:
    *most, last = (row.example for row in KINDS.values())
    return f"{', '.join(most)} or {last}"


def _respelled(device: str) -> tuple[str, str] | None:
    """Return another program's device as a map writes it, and why; None if it is no device."""
    for pattern, fixed, origin in _spellings() if len(device) <= _SPELLED else ():
        match = re.fullmatch(pattern, device, re.IGNORECASE)
        if match and match[0].isascii():
            numbers = [n.lstrip("0") or n[:1] for n in match.groups()]
            written = fixed.format(*numbers)
            return None if _has_high_index(numbers) else (written, origin)
    return None


def _spellings() -> Iterator[tuple[str, str, str]]:
    """Yield how other programs write a device: the pattern, how a map does, and whose it is."""
    for kind, row in KINDS.items():
        yield from row.spellings
        for pattern, origin in _EVERY if "index" in row.forms else ():
            yield pattern.format(kind), f"{kind}{{}}", origin


def _has_high_index(numbers: Iterable[str | None]) -> bool:
    # Lengths first: int() of a hostile digit string is quadratic, and Python refuses it at 4300.
    return any(n and (len(n) > len(str(INDEX_MAX)) or int(n) > INDEX_MAX) for n in numbers)


def _no_arrow(text: str, part: Span, number: int) -> Diagnostic:
    entry = text[part.start : part.stop]
    if not entry:
        semicolon, where = _adjacent_separator(text, part)
        return Diagnostic("empty-entry", f"empty entry {where}", number, semicolon, 'drop one ";"')
    message = f'no "->" in "{cut(entry)}"'
    return Diagnostic("no-arrow", message, number, part, _arrow_hint(entry, number))


def _adjacent_separator(text: str, part: Span) -> tuple[Span, str]:
    """Return the `;` next to an empty entry, so that the caret has something under it."""
    before = text.rfind(";", 0, part.start)
    if before < 0:
        return Span(part.stop, part.stop + 1), 'before the first ";"'
    between = part.stop < len(text)
    return Span(before, before + 1), 'between two ";"' if between else 'after a trailing ";"'


def _arrow_hint(entry: str, number: int) -> str:
    if entry.endswith("-"):
        name = cut(entry[:-1].strip(BLANKS)) or "dev0"
        return f'a shell took the ">": quote the map: "{name}->..."'
    devices = [_as_device(part.strip(BLANKS)) for part in entry.split(",", _LISTED)]
    if all(devices):
        named = ";".join(f"dev{n}->{device}" for n, device in enumerate(devices, number - 1))
        return f'give {"each" if len(devices) > 1 else "it"} a name: "{named}"'
    for arrow in _ARROWS:
        name, found, device = (side.strip(BLANKS) for side in entry.partition(arrow))
        if found:
            written = _as_device(device) or cut(device) or "cuda0"
            return f'write "{cut(name) or f"dev{number - 1}"}->{written}"'
    return f'write "{cut(entry)}->cuda0", or another device'


def _as_device(text: str) -> str | None:
    """Return a device, however it is spelled, as a map writes it; None if it is none."""
    if "@" not in text and _parts_of(text):
        return cut(text)
    if identity := canonical_identity(text.removeprefix("cuda@")):
        return f"cuda@{identity}"
    respelled = _respelled(text)
    return respelled and respelled[0]


def _two_arrows(text: str, part: Span, second: Span, number: int) -> Diagnostic:
    entry = text[part.start : part.stop]
    separator = next((f'"{s}"' for s in ("=>", ",") if s in entry), None)
    separator = separator or ("a line break" if "\n" in entry else None)
    hint = 'entries are separated by ";"' + (f", not {separator}" if separator else "")
    return Diagnostic("two-arrows", 'a second "->" in one entry', number, second, hint)


def _repeated(text: str) -> list[Diagnostic]:
    """Return a diagnostic for each place at which a name stands that stands elsewhere too."""
    places: dict[str, list[tuple[int, Span]]] = {}
    for number, part in enumerate(_parts(text), 1):
        arrow = text.find("->", part.start, part.stop)
        span = _stripped(text, part.start, arrow)
        if arrow >= 0 and span.stop > span.start:
            places.setdefault(text[span.start : span.stop], []).append((number, span))
    return [
        _repeat(name, number, span, other=found[1 if i == 0 else 0][0])
        for name, found in places.items()
        if len(found) > 1
        for i, (number, span) in enumerate(found)
    ]


def _repeat(name: str, number: int, span: Span, *, other: int) -> Diagnostic:
    message = f'the name "{cut(name)}" is in entry {other} too'
    return Diagnostic("duplicate-name", message, number, span, "rename one of them", name=name)
