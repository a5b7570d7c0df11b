"""The table of causes with a page for each, and the diagnosis of each name and framework.

From evidence to one diagnosis for each name, from facts to one for each framework: every cause of
the table is tried, in the order of the table. A framework's diagnosis has the device
that its `cuda:0` is, too. A page has a cause's meaning, how it is found, the fix, and the source.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumap.doctor import hardware, usage
from gpumap.doctor.evidence import MapName, Rule
from gpumap.doctor.facts import Facts, Match, tables, version
from gpumap.doctor.framework_rules import causes
from gpumap.doctor.usage import has_gpu, shown
from gpumap.errors import Diagnostic, Exit
from gpumap.files import shipped
from gpumap.judge.exit_status import exit_code
from gpumap.model import DeviceRef, Diagnosis, Finding, Kind, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.doctor.evidence import Evidence, Texts
    from gpumap.explain import Topic
    from gpumap.machine.cuda import CudaDevice
    from gpumap.model import Binding, DoctorVerdict

RULES = {**usage.CONFIGURATION, **hardware.RULES, **usage.WORK}
_EXITS = {"GM535": Exit.INCONCLUSIVE}  # of frameworks; else the answer is no
_WORD = re.compile(r"GM[0-9]{0,3}", re.IGNORECASE)
_BRACES = re.compile(r"\{(\w+)\}")
_USED: Final = "used"
_WORSE = ("not used", "partly")  # the worst verdicts, in order
_OF_WORK = ("GM3", "GM4")  # the groups of the machine and of the work
_SHOWN = 3  # causes of a framework that are shown
_SILENT = "the library sees no GPU, and nothing that was read says why"


class Cause(NamedTuple):
    """A rule, and its texts of causes.toml.

    code: GM and three digits, fixed: 1.. configuration, 2.. device and driver, 3.. machine,
        4.. work. key: a short name. text, fix: one line each, fields of its sign in braces.
    meaning, how, source: the sentences of its page.
    usual: the fixes on its page, where the fix itself depends on the sign.
    """

    code: str
    rule: Rule
    key: str
    text: str
    fix: str
    meaning: str
    how: str
    source: str
    usual: str = ""


@cache
def table() -> Mapping[str, Cause]:
    """Return every cause by its code: its rule, and its texts of causes.toml."""
    result = {}
    for code, texts in shipped("gpumap.doctor", "causes.toml").items():
        # those of frameworks test facts, and no name of a map
        other = Rule("not used", lambda *_: iter(()), _EXITS.get(code, Exit.NO))
        result[code] = Cause(code, RULES.get(code, other), **texts)
    return result


def page(cause: Cause) -> Topic:
    """Return a cause as a topic; in its fixes the words of a sign are in capitals."""
    from gpumap.explain import Topic

    whose = "A framework" if cause.code.startswith("GM5") else "A name"
    outcome = f"{whose} that it holds for is {cause.rule.verdict}."
    text = f"{cause.meaning} How doctor knows: {cause.how} {outcome} Source: {cause.source}."
    return Topic(cause.code, "diagnosis", cause.key, text, cause.usual or plain(cause.fix))


def plain(text: str) -> str:
    """Return a text with its fields in capitals."""
    return _BRACES.sub(lambda match: match[1].upper(), text)


def pages(word: str = "GM") -> tuple[Topic, ...]:
    """Return the pages of a code, of codes that begin so, or of a cause's key; without one all."""
    query, every = word.strip().casefold(), map(page, table().values())
    if _WORD.fullmatch(word.strip()):
        return tuple(one for one in every if one.name.casefold().startswith(query))
    return tuple(one for one in every if one.summary == query.replace(" ", "-"))


def diagnoses(known: Evidence) -> tuple[Diagnosis, ...]:
    """Return the diagnosis of each name; one without a name for an invalid map."""
    if known.problems:
        unnamed = MapName("", DeviceRef(Kind.CPU))
        return (replace(_diagnosis(known, unnamed), name=None, requested=None),)
    return tuple(_diagnosis(known, named) for named in known.names)


def only_default_cores(known: Evidence, every: Iterable[Diagnosis]) -> bool:
    """Return whether only default cores were examined, and they work.

    There is no map and no GPU. What slows such a core down is no fault of a set-up; a broken
    setting, a core that fails and one that was not examined stay a diagnosis.
    """
    if known.source is not None or known.problems or has_gpu(known):
        return False
    codes = [finding.code for one in every for finding in one.findings]
    slow = all(RULES[code].exit is Exit.NO and code.startswith(_OF_WORK) for code in codes)
    return slow and all(named.ref.kind.row.cores for named in known.names)


def exits(every: Iterable[Diagnosis]) -> Iterable[tuple[Diagnosis, Exit]]:
    """Yield each diagnosis with findings, and its exit code."""
    for diagnosis in every:
        if diagnosis.findings:
            yield diagnosis, exit_code(table()[one.code].rule.exit for one in diagnosis.findings)


def _diagnosis(known: Evidence, named: MapName) -> Diagnosis:
    active = [each for each in _active(known, named) if each[0].rule.verdict != _USED]
    if any(_absence(cause, named) and not cause.rule.last for cause, _ in active):
        active = [each for each in active if not each[0].rule.last]
    active.sort(key=lambda each: (not _absence(each[0], named), _WORSE.index(each[0].rule.verdict)))
    verdict: DoctorVerdict = active[0][0].rule.verdict if active else _USED
    findings, figures = tuple(starmap(_finding, active)), dict(named.figures)
    return Diagnosis(named.name, str(named.ref), verdict, _evidence(named), findings, figures)


def _active(known: Evidence, named: MapName) -> Iterator[tuple[Cause, Texts]]:
    every = ((code, next(rule.test(known, named), None)) for code, rule in RULES.items())
    yield from ((table()[code], sign) for code, sign in every if sign is not None)


def notes(known: Evidence) -> Iterator[Diagnostic]:
    """Yield the notes on names that are used."""
    for named in known.names:
        for cause, sign in _active(known, named):
            if cause.rule.verdict == _USED:
                note = _finding(cause, sign)
                code, text = cause.key, f"{note.code} {note.text}"
                yield Diagnostic(code, text, hint=note.fix, severity="note", name=named.name)


def _absence(cause: Cause, named: MapName) -> bool:
    """Return whether a cause is why a name has no device: other fixes then change nothing."""
    return named.absent is not None and cause.rule.exit in (Exit.ABSENT, Exit.QUESTION)


def _finding(cause: Cause, sign: Texts) -> Finding:
    text, fix = (each.format_map(sign) for each in (cause.text, cause.fix))
    return Finding(cause.code, cause.key, text, fix)


def _evidence(named: MapName) -> str:
    """Return the evidence on a device in a line."""
    if named.device is None:
        return "no device"
    what = f"{named.device.name}, {named.device.backend}"
    product = named.figures.get("product")
    if product is None:
        return what
    return f"{what}; a product of 512 x 512 takes {shown(product)}; every result was verified"


def diagnosis(
    raw: Mapping[str, Any], commands: Mapping[str, str], python: str, first: str = ""
) -> Diagnosis:
    """Return the diagnosis of a framework.

    Args:
        raw: its facts, of metadata, the library and the machine.
        commands: those of fixes: python, pip, installer.
        python: the interpreter as the user requested it.
        first: the text of its device numbers.
    """
    framework = str(raw.get("framework", ""))
    facts = Facts(raw, framework)
    name, version = facts.package
    imported = facts.text("framework_version")
    loaded = f"imports as {imported}" if imported and imported != version else ""
    evidence = ", ".join(part for part in (f"{name} {version}", loaded, first) if part)
    loads = raw.get("loads") is True and raw.get("driver_devices") not in (None, 0)
    if raw.get("worked") is True or loads:
        return Diagnosis(framework, None, "used", evidence, interpreter=python)
    matches = causes(facts) or (Match("GM537", facts.text("framework_says") or _SILENT),)
    texts = _texts(facts, commands)
    findings = tuple(_framework_finding(each, texts) for each in matches[:_SHOWN])
    return Diagnosis(framework, None, "not used", evidence, findings, interpreter=python)


def _framework_finding(match: Match, texts: Texts) -> Finding:
    sign = {**texts, "what": match.what, "names": shlex.join(match.names)}
    found = _finding(table()[match.code], sign)
    return replace(found, certainty="certain" if match.certain else "likely")


def _texts(facts: Facts, commands: Mapping[str, str]) -> Texts:
    """Return the commands of fixes, for this interpreter, the driver and the device."""
    offers, card = facts.driver_cuda, facts.capability
    fits = [
        tag
        for cuda, (tag, oldest, newest) in tables()["tags"].items()
        if (not offers or version(cuda) <= offers)
        and (not card or version(oldest) <= card <= version(newest))
    ]
    tag = (fits or ["cu126"])[0]
    known = tables()["install"]["cuda12" if tag < "cu13" else "cuda13"]
    parts = {**commands, "tag": tag, "module": facts.framework}
    return parts | {"install": known[facts.framework].format_map(parts)}


def numbering(
    raws: Sequence[Mapping[str, Any]], visible: Sequence[CudaDevice], bindings: Sequence[Binding]
) -> str:
    """Return the devices of a framework's indices, by UUID, with their names of the map.

    An index counts the visible devices, in the driver's order: one without a UUID of the
    library is the driver's of that index.
    """
    found = []
    for index, raw in enumerate(raws):
        uuid = _bare(raw.get("uuid"))
        if not uuid and index < len(visible):
            uuid = _bare(visible[index].uuid)
        names = [one.name for one in bindings if uuid and _bare(one.device.uuid) == uuid]
        what = f"{raw.get('name', '')} {f'GPU-{uuid}' if uuid else '(UUID not known)'}"
        whose = f", {', '.join(names)} of the map" if names else ""
        found.append(f"cuda:{index} is {what.strip()}{whose}")
    return "; ".join(found)


def _bare(uuid: object) -> str:
    """Return a UUID without the prefix of drivers."""
    return re.sub(r"^(GPU|MIG)-", "", str(uuid or ""), flags=re.IGNORECASE).lower()
