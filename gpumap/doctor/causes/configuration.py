"""GM1..: the device is not asked for, or not in the way that its user thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import theano_config
from gpumap.doctor.causes.cause import Cause, Shown
from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.doctor.evidence import Evidence, Late, Named

# Notes on a map's source that say that a part of it is lost on the way to Theano.
_LOSING = (
    "flags-comment", "flags-spelling", "flags-stray", "flags-comma", "flags-backslash",
    "rc-section", "rc-quotes", "rc-blank", "rc-comment",
)  # fmt: skip
_EXPLICIT = ("argument", "--map", "--map-file")  # who asks for it knows it
_THEANOS = ("THEANO_FLAGS", ".theanorc")
_SHOWN = 80
_GPUS = (Kind.CUDA, Kind.OPENCL)  # NVIDIA's OpenCL, too, shows what CUDA's variables let it show
_READERS = {  # the kinds of device that a variable is for; others are for all
    "CUDA_VISIBLE_DEVICES": _GPUS,
    "CUDA_DEVICE_ORDER": _GPUS,
    "POCL_AFFINITY": (Kind.OPENCL,),
}
_LONG = 400  # characters: a longer map is no line to paste
_ARTICLE = "the article Why is Theano rarely using the GPU?, example 1"
_FACTS = "Theano 1.0.5"


def _bad_map(known: Evidence, _: Named) -> Shown | None:
    if not known.problems:
        return None
    first = known.problems[0]
    more = f" and {len(known.problems) - 1} more" if len(known.problems) > 1 else ""
    return Shown({"what": first.message + more, "fix": first.hint or "see the error"})


def _no_configuration(known: Evidence, named: Named) -> Shown | None:
    if known.source is not None or known.problems or not has_gpu(known):
        return None
    told = known.theano.get("device")
    if told is not None and told.value.strip() != "cpu":
        return None  # it names a device, or Theano refuses it
    what = f"device=cpu ({_cut(told.origin)}) is no map" if told else "there is no map"
    gpu = next((one.asked for one in known.names if one.kind is not Kind.CPU), None)
    where = f"; for Theano: THEANO_FLAGS=device={gpu}" if gpu else ""
    return Shown({"what": what, "map": _whole(known.names, named), "theano": where})


def _whole(names: Iterable[Named], named: Named) -> str:
    """Return the map of names, in one line; a very long one is that of this name alone."""
    text = ";".join(f"{printable(one.name)}->{one.asked}" for one in names)
    return text if 0 < len(text) <= _LONG else f"{_cut(named.name)}->{named.asked}"


def has_gpu(known: Evidence) -> bool:
    """Return whether a backend has found a GPU."""
    opencl = known.of_kind(Kind.OPENCL)
    return bool(known.of_kind(Kind.CUDA)) or any(d.facts.get("type") == "gpu" for d in opencl)


def _cut_map(known: Evidence, _: Named) -> Shown | None:
    notes = known.source.notes if known.source else ()
    lost = next((note for note in notes if note.code in _LOSING), None)
    return Shown({"what": lost.message, "fix": lost.hint or "write it again"}) if lost else None


def _cpu_fallback(known: Evidence, named: Named) -> Shown | None:
    told = known.theano.get("device")
    contexts = known.theano.get("contexts")
    if told is None or told.value.strip() != "cpu" or (contexts and contexts.value.strip()):
        return None
    if named.kind is Kind.CPU:
        return None
    text = _whole((one for one in known.names if one.kind is not Kind.CPU), named)
    return Shown({"origin": _cut(told.origin), "map": text, "device": named.asked})


def _options(known: Evidence) -> theano_config.Options:
    return {key: (setting.value, setting.origin) for key, setting in known.theano.items()}


def _refused(known: Evidence, _: Named) -> Shown | None:
    device = theano_config.refused_device(_options(known))
    if device is None or device.startswith("gpu"):  # an old name has a cause of its own
        return None
    return Shown({"device": _cut(device), "origin": _cut(known.theano["device"].origin)})


def _lost(known: Evidence, named: Named) -> Shown | None:
    owner = theano_config.lost_names(_options(known)).get(named.name)
    if owner is None:
        return None
    fix = f"remove {_cut(owner)}" if "=" in owner else "give each name a device of its own"
    return Shown({"name": _cut(named.name), "owner": _cut(owner), "fix": fix})


def _old_name(known: Evidence, _: Named) -> Shown | None:
    told = known.theano.get("device")
    if told is None or not told.value.startswith("gpu"):
        return None
    number = told.value.removeprefix("gpu")
    new = f"cuda{number}" if number.isdecimal() else "cuda"
    return Shown({"device": _cut(told.value), "origin": _cut(told.origin), "new": new})


def _option_late(known: Evidence, _: Named) -> Shown | None:
    late = known.script.option if known.script else None
    return _late(known, late) if late else None


def _variable_late(known: Evidence, named: Named) -> Shown | None:
    every = known.script.variables if known.script else ()
    late = next((one for one in every if named.kind in _READERS.get(one.name, Kind)), None)
    return _late(known, late) if late else None


def _late(known: Evidence, late: Late) -> Shown:
    return Shown(
        {
            "path": _cut(known.script.path if known.script else ""),
            "line": str(late.line),
            "what": late.what,
            "library": late.after,
            "imported": str(late.imported),
        }
    )


def _other_map(known: Evidence, _: Named) -> Shown | None:
    theirs = known.theano.get("contexts")
    if known.source is None or theirs is None or known.source.origin in (*_EXPLICIT, *_THEANOS):
        return None
    if _plain(theirs.value) == _plain(known.source.text):
        return None
    return Shown(
        {
            "ours": _cut(known.source.text),
            "origin": known.source.origin,
            "theirs": _cut(theirs.value),
            "place": _cut(theirs.origin),
        }
    )


def _child(known: Evidence, named: Named) -> Shown | None:
    value = known.variables.get("THEANO_GPU_IS_ALREADY_ACTIVE", "")
    return Shown() if value == "Yes" and named.kind is not Kind.CPU else None


def _blocking(known: Evidence, named: Named) -> Shown | None:
    value = known.variables.get("CUDA_LAUNCH_BLOCKING", "")
    if named.kind is not Kind.CUDA or value.strip() in ("", "0"):
        return None
    return Shown({"value": _cut(value)})


def _one_device(known: Evidence, named: Named) -> Shown | None:
    devices = {one.device.id for one in known.names if one.device is not None}
    several = [one for one in known.names if one.device is not None]
    if named.device is None or len(several) < len(known.names) or len(several) == 1:
        return None
    if len(devices) > 1:
        return None
    every = known.of_kind(named.kind)
    others = [str(d.ref) for d in every if d.id != named.device.id and d.ref.part is None]
    words = {
        "count": str(len(several)),
        "device": _cut(str(named.device.ref)),
        "others": f"; there is {', '.join(others[:4])} too" if others else "",
    }
    return Shown(words)


def _unreadable(known: Evidence, _: Named) -> Shown | None:
    problem = known.unreadable
    return Shown({"what": problem.message, "fix": problem.hint or "mend it"}) if problem else None


def _wrong_backend(_: Evidence, named: Named) -> Shown | None:
    absent = named.absent
    if absent is None or absent.code != "wrong-backend":
        return None
    return Shown({"what": absent.message, "fix": absent.hint or ""})


def _plain(text: str) -> str:
    return "".join(text.split())


def _cut(text: str) -> str:
    return printable(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}...")


CAUSES = (
    Cause(
        "GM101", "bad-map", "not used", _bad_map,
        "the map is empty, cut or wrong: {what}",
        "{fix}",
        "The text of the map names no device, or not all of it is a map. A shell that sees an "
        'unquoted ">" or ";" takes a part of it away; Theano stops at its first bad entry.',
        "The map is parsed; every problem is in the report's errors with its place.",
        f"{_FACTS}, ContextsParam in configdefaults.py",
        usual='quote the map, and write each entry as NAME->DEVICE: "dev0->cuda0;dev1->cuda1"',
    ),
    Cause(
        "GM102", "no-configuration", "not used", _no_configuration,
        "nothing names a device: {what}, and a program without one stays on the processor",
        'name it: gpumap doctor "{map}"{theano}',
        "Code that could run on a device does not do so by itself: without a map or a device in "
        "its configuration it computes on the processor, and says nothing. In Theano device=cuda0 "
        "names it, and sends all work there.",
        "No argument, option, GPUMAP_CONTEXTS, gpumap.toml, THEANO_FLAGS or .theanorc has a map, "
        "Theano's option device names no device, and there is a GPU. The names that are shown are "
        "a default, and their probes tell whether the devices work.",
        _ARTICLE,
        usual='name it: gpumap doctor "dev0->cuda0"; for Theano: THEANO_FLAGS=device=cuda0',
    ),
    Cause(
        "GM103", "cut-map", "partly", _cut_map,
        "a part of the map is lost on its way to Theano: {what}",
        "{fix}",
        "THEANO_FLAGS and .theanorc have rules of their own for commas, comments, quotes and "
        "sections. What they drop is not mapped, and no error says so.",
        "The text is read by Theano's own rules, and what these drop is looked at.",
        f"{_FACTS}, configparser.py",
        usual='part entries by ";", without "#", quotes or blank lines, in the section [global]',
    ),
    Cause(
        "GM104", "cpu-fallback", "not used", _cpu_fallback,
        "Theano is told to use the processor: device=cpu ({origin}), and no contexts",
        'set THEANO_FLAGS=device={device}, or "contexts={map}" and a target for each variable',
        "With device=cpu and no map Theano computes everything on the processor, whatever other "
        "programs find on this machine. device=cuda0 sends all work to the device; contexts alone "
        "leaves inputs and shared variables on the processor unless a target names a context.",
        "THEANO_FLAGS and .theanorc are read; the first wins. A name on a processor is right so.",
        f"{_FACTS}, the option device; {_ARTICLE}",
    ),
    Cause(
        "GM105", "old-device-name", "not used", _old_name,
        "device={device} ({origin}) is a name of Theano's old back-end, which was removed",
        "write device={new}",
        "Theano 1.0 refuses device=gpu at its import; before that it meant another back-end.",
        "THEANO_FLAGS and .theanorc are read.",
        f"{_FACTS}, configdefaults.py",
    ),
    Cause(
        "GM106", "configuration-after-import", "not used", _option_late,
        "{path}, line {line}: {what} comes after the import of {library} (line {imported}): Theano "
        "raises an error there",
        "set THEANO_FLAGS before the program starts, or in .theanorc; take the line out",
        "The options that choose a device are fixed when Theano is imported. To set one later "
        "raises: Can't change the value of this config parameter after initialization! (The "
        "article has it wrong: it sets theano.config.device before it compiles.)",
        "The program of --script is parsed, not run: an option is set behind the import.",
        f"{_FACTS}, configparser.py, ConfigParam.__set__; the article's examples 2 and 3",
    ),
    Cause(
        "GM107", "variable-after-import", "not used", _variable_late,
        "{path}, line {line}: {what} comes after the import of {library} (line {imported}), which "
        "may have read it",
        "set the variable before the program starts, or above the import",
        "Drivers and libraries read their variables when they start, and never again: a later "
        "change comes to nothing, without a word.",
        "The program of --script is parsed, not run: a variable is set behind the import of a "
        "library that reads it.",
        "NVIDIA, CUDA Programming Guide, CUDA Environment Variables; Theano 1.0.5, configparser.py",
    ),
    Cause(
        "GM108", "parent-has-device", "not used", _child,
        "THEANO_GPU_IS_ALREADY_ACTIVE=Yes: Theano refuses a device whose parent process has it",
        "unset THEANO_GPU_IS_ALREADY_ACTIVE, or choose the device in the child alone",
        "A process that was started by one that uses a device inherits this mark, and Theano then "
        "logs an error and goes on with the processor.",
        "The variable is looked at.",
        f"{_FACTS}, gpuarray/__init__.py, init_dev",
    ),
    Cause(
        "GM109", "other-map", "partly", _other_map,
        'Theano has another map: "{theirs}" ({place}), and gpumap "{ours}" ({origin})',
        "keep one of the two",
        "Two places hold a map, and they differ: what is checked here is not what Theano uses.",
        "The map is from GPUMAP_CONTEXTS or gpumap.toml, and contexts of Theano's differ.",
        "gpumap's and Theano's order of places (docs/maps.md)",
    ),
    Cause(
        "GM110", "launch-blocking", "partly", _blocking,
        "CUDA_LAUNCH_BLOCKING={value}: the host waits at the end of every launch",
        "unset CUDA_LAUNCH_BLOCKING; it is for finding errors",
        "Launches return only when the kernel has ended: host and device never work at once, and "
        "several devices take turns.",
        "The variable is looked at.",
        "NVIDIA, CUDA Programming Guide, CUDA Environment Variables",
    ),
    Cause(
        "GM111", "one-device", "partly", _one_device,
        "{count} names, and all of them are {device}: one device is used{others}",
        "give each name a device of its own",
        "Several devices are asked for by several names, but the names lead to one: together they "
        "do what it does alone. Theano says it mapped both.",
        "The names are resolved; devices are compared by PCI address or UUID.",
        "github.com/Theano/libgpuarray/issues/255 and 256",
    ),
    Cause(
        "GM112", "unreadable-settings", "partly", _unreadable,
        "Theano's settings cannot be read, and it stops there: {what}",
        "{fix}",
        "A file or variable that Theano reads at its import is broken: import theano fails.",
        "THEANO_FLAGS and the files of THEANORC are read as Theano reads them; nothing is run.",
        f"{_FACTS}, configparser.py",
        usual="mend the file or variable that is named, or take it out of THEANORC",
    ),
    Cause(
        "GM113", "wrong-backend", "not used", _wrong_backend,
        "{what}",
        "{fix}",
        "A backend was chosen by --backend, GPUMAP_BACKEND or gpumap.toml that drives another kind "
        "of device than the map asks for.",
        "The kinds of the backend are held against the map.",
        "docs/backends.md",
        Exit.QUESTION,
        usual="leave the backend out (--backend, GPUMAP_BACKEND, gpumap.toml), or name another",
    ),
    Cause(
        "GM114", "refused-device", "not used", _refused,
        "device={device} ({origin}): import theano fails, for it takes cpu, cuda and opencl only",
        "write device=cuda0, or remove it and give each variable a target",
        "Theano refuses any other value of device when it is imported, a name of the map too: "
        "contexts defines names for target and transfer, and no devices.",
        "THEANO_FLAGS and .theanorc are read.",
        f"{_FACTS}, DeviceParam in configdefaults.py",
    ),
    Cause(
        "GM115", "lost-name", "not used", _lost,
        "Theano prints {name} as mapped and does not define it: {owner} has its device",
        "{fix}",
        "Theano 1.0 defines one context for each text of a device: the first of device= and the "
        "entries has it. The first use of a later name raises: context name dev0 not defined.",
        "THEANO_FLAGS and .theanorc are read, and the devices of contexts compared as texts.",
        f"{_FACTS}, gpuarray/__init__.py, init_dev (since 0.9.0)",
        usual="remove device=cuda0, or give each name a device of its own",
    ),
)  # fmt: skip
