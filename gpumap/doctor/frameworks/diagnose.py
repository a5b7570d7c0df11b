"""From facts to the diagnosis of a framework, and to the device that its `cuda:0` is."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from gpumap.doctor.causes import table
from gpumap.doctor.frameworks.facts import Facts, tables, version
from gpumap.doctor.frameworks.judge import causes
from gpumap.model import Diagnosis, Finding
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.doctor.frameworks.found import Found
    from gpumap.machine.cuda import CudaDevice
    from gpumap.model import Binding, Certainty

_MOST = 3  # causes that are shown
_SILENT = "the library sees no GPU, and nothing that was read says why"


def diagnosis(
    raw: Mapping[str, Any], commands: Mapping[str, str], seen: str, first: str = ""
) -> Diagnosis:
    """Return the diagnosis of a framework.

    Args:
        raw: its facts, as metadata, the library and the machine tell them.
        commands: those of fixes: python, pip, installer, and conda where it installs packages.
        seen: the interpreter as the user knows it.
        first: which device its `cuda:0` is, in words.
    """
    framework = str(raw.get("framework", ""))
    facts = Facts(raw, framework)
    name, version = facts.package
    told = facts.text("framework_version")
    loaded = f"imports as {told}" if told and told != version else ""
    listed = f"{name} {version}".strip() or "not installed"
    evidence = ", ".join(part for part in (listed, loaded, first) if part)
    loads = raw.get("loads") is True and raw.get("driver_devices") not in (None, 0)
    if raw.get("worked") is True or loads:
        return Diagnosis(framework, None, "used", evidence, interpreter=seen)
    found = _found(facts, framework)
    words = _words(facts, commands)
    findings = tuple(_finding(each, words) for each in found[:_MOST])
    return Diagnosis(framework, None, "not used", evidence, findings, interpreter=seen)


def _found(facts: Facts, framework: str) -> tuple[Found, ...]:
    from gpumap.doctor.frameworks.found import Found

    if not facts.package[0]:
        return (Found("GM536", f"{framework} has no metadata there", certain=True),)
    return causes(facts) or (Found("GM537", facts.text("framework_says") or _SILENT),)


def _finding(found: Found, words: Mapping[str, str]) -> Finding:
    cause = table()[found.code]
    text = cause.text.format_map({"what": printable(found.what)})
    sure: Certainty = "certain" if found.certain else "likely"
    fix = cause.fix.format_map({**words, "names": shlex.join(found.names)})
    return Finding(found.code, cause.key, text, fix, certainty=sure)


def _words(facts: Facts, commands: Mapping[str, str]) -> Mapping[str, str]:
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
    if "conda" in commands:
        known = tables()["install"]["conda"]
    parts = {**commands, "tag": tag, "module": facts.framework}
    return parts | {"install": known[facts.framework].format_map(parts)}


def seats(
    told: Sequence[Mapping[str, Any]], visible: Sequence[CudaDevice], bindings: Sequence[Binding]
) -> str:
    """Return which devices a framework's indices are, by UUID, with the map's names for them.

    An index counts the visible devices, in the driver's order: one that a library does not name by
    UUID is the driver's of that place.
    """
    return "; ".join(_seat(index, each, visible, bindings) for index, each in enumerate(told))


def _seat(
    index: int, told: Mapping[str, Any], visible: Sequence[CudaDevice], bindings: Sequence[Binding]
) -> str:
    uuid = _bare(told.get("uuid"))
    if not uuid and index < len(visible):
        uuid = _bare(visible[index].uuid)
    names = [one.name for one in bindings if uuid and _bare(one.device.uuid) == uuid]
    what = f"{printable(str(told.get('name', '')))} {f'GPU-{uuid}' if uuid else '(UUID not known)'}"
    whose = f", {', '.join(map(printable, names))} of the map" if names else ""
    return f"cuda:{index} is {what.strip()}{whose}"


def _bare(uuid: object) -> str:
    """Return a UUID without what drivers put before it."""
    return re.sub(r"^(GPU|MIG)-", "", str(uuid or ""), flags=re.IGNORECASE).lower()
