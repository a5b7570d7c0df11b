"""GM1 and GM4: how a device is requested, and its work.

GM1..: it is not requested, or not in the way that its user thinks. GM4..: it works, and the work is
not the kind that it is fast at. Small work is slower on every device: that is no fault of a set-up,
and is reported with an example. It is a cause of a name only where a cost is far beyond that of any
sound device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.config import lost_names, refused_device, renamed
from gpumap.doctor.evidence import Rule, failed, limited, problem
from gpumap.errors import Exit
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.doctor.evidence import Evidence, MapName, Signs
    from gpumap.model import Estimate

# Of a map that is explicit on the command line, or that is Theano's own.
_RIGHT = ("argument", "--map", "@FILE", "THEANO_FLAGS", ".theanorc")
_LONG = 400  # characters: a longer map is no line to paste
LAUNCH = 1e-3  # seconds: a launch takes 5 to 100 us on sound devices
COPYING = 1e9  # B/s: a link of four lanes of 2003
FAR = 4.0  # times as long: twice the bytes at half the rate, as on any sound device, is 2
SETTING_UP = 10.0  # seconds: compilers of some drivers take that, once


def _bad_map(known: Evidence, _: MapName) -> Signs:
    for first in known.problems[:1]:
        more = f" and {len(known.problems) - 1} more" if len(known.problems) > 1 else ""
        yield {"what": first.message + more, "fix": first.hint or "see the error"}


def _no_configuration(known: Evidence, named: MapName) -> Signs:
    setting = known.theano.get("device")
    if setting is not None and setting.value.strip() != "cpu":
        return  # it names a device, or Theano refuses it
    what = f"device=cpu ({cut(setting.origin)}) is no map" if setting else "there is no map"
    if known.source is None and not known.problems and has_gpu(known):
        yield {"what": what, "map": _map_text(known.names, named)}


def _map_text(names: Iterable[MapName], named: MapName) -> str:
    """Return the map of names, in one line; a very long one is that of this name only."""
    text = ";".join(f"{one.name}->{one.ref}" for one in names)
    return text if 0 < len(text) <= _LONG else f"{cut(named.name)}->{named.ref}"


def has_gpu(known: Evidence) -> bool:
    """Return whether a backend has found a GPU or another accelerator."""
    return any(device.accelerator for probe in known.probes for device in probe.devices)


def _truncated_map(known: Evidence, _: MapName) -> Signs:
    for note in known.source.notes if known.source else ():
        if note.code == "flags-lost":
            yield problem(note, "write it again")


def _cpu_fallback(known: Evidence, named: MapName) -> Signs:
    setting = known.theano.get("device")
    contexts = known.theano.get("contexts")
    if setting is None or setting.value.strip() != "cpu" or (contexts and contexts.value.strip()):
        return
    text = _map_text((one for one in known.names if not one.ref.kind.row.cores), named)
    if not {*'"$`\\'}.isdisjoint(text):  # what a shell would act on is not to be pasted
        text = "MAP"
    if not named.ref.kind.row.cores:
        yield {"origin": cut(setting.origin), "map": text, "device": str(named.ref)}


def _refused(known: Evidence, _: MapName) -> Signs:
    device = refused_device(known.theano)
    if device is not None and not renamed(device):  # an old name has another cause
        yield {"device": cut(device), "origin": cut(known.theano["device"].origin)}


def _lost_name(known: Evidence, named: MapName) -> Signs:
    if found := lost_names(known.theano).get(named.name):
        owner, fix = found
        yield {"name": cut(named.name), "owner": owner, "fix": fix}


def _old_name(known: Evidence, _: MapName) -> Signs:
    setting = known.theano.get("device")
    if setting is not None and (new := renamed(setting.value)) is not None:
        yield {"device": cut(setting.value), "origin": cut(setting.origin), "new": new}


def _other_map(known: Evidence, _: MapName) -> Signs:
    theirs = known.theano.get("contexts")
    if known.source is None or theirs is None or known.source.origin in _RIGHT:
        return
    ours, other = ("".join(text.split()) for text in (known.source.text, theirs.value))
    if ours != other:
        yield {
            "ours": cut(known.source.text),
            "origin": known.source.origin,
            "theirs": cut(theirs.value),
            "place": cut(theirs.origin),
        }


def _child(known: Evidence, named: MapName) -> Signs:
    value = known.variables.get("THEANO_GPU_IS_ALREADY_ACTIVE", "")
    if value == "Yes" and not named.ref.kind.row.cores:
        yield {}


def _blocking(known: Evidence, named: MapName) -> Signs:
    value = known.variables.get("CUDA_LAUNCH_BLOCKING", "")
    if "CUDA_LAUNCH_BLOCKING" in named.ref.kind.row.reads and value.strip() not in ("", "0"):
        yield {"value": cut(value)}


def _one_device(known: Evidence, named: MapName) -> Signs:
    count, devices = len(known.names), {one.device and one.device.id for one in known.names}
    if named.device is not None and count > 1 and len(devices) == 1:
        yield {"count": str(count), "device": cut(str(named.device.ref))}


def _unreadable(known: Evidence, _: MapName) -> Signs:
    if known.unreadable:
        yield problem(known.unreadable, "fix it")


def _wrong_backend(_: Evidence, named: MapName) -> Signs:
    if named.absent is not None and named.absent.code == "wrong-backend":
        yield problem(named.absent)


CONFIGURATION = {
    "GM101": Rule("not used", _bad_map),
    "GM102": Rule("not used", _no_configuration),
    "GM103": Rule("partly", _truncated_map),
    "GM104": Rule("not used", _cpu_fallback),
    "GM105": Rule("not used", _old_name),
    "GM108": Rule("not used", _child),
    "GM109": Rule("partly", _other_map),
    "GM110": Rule("partly", _blocking),
    "GM111": Rule("partly", _one_device),
    "GM112": Rule("partly", _unreadable),
    "GM113": Rule("not used", _wrong_backend, Exit.QUESTION),
    "GM114": Rule("not used", _refused),
    "GM115": Rule("not used", _lost_name),
}


def _float64(known: Evidence, named: MapName) -> Signs:
    chosen = known.theano.get("floatX")
    theanos = "device" in known.theano or "contexts" in known.theano
    double = chosen.value.strip() == "float64" if chosen else theanos
    what = f"floatX=float64 ({chosen.origin})" if chosen else "floatX is not set: it is float64"
    if double and named.device is not None and not named.ref.kind.row.cores:
        yield from _far_slower(what, named)


def _far_slower(what: str, named: MapName) -> Signs:
    """Yield the cost of float64, where that is far beyond that of any sound device."""
    single, double = named.figures.get("product"), named.figures.get("double")
    if single is None or named.failure is not None:
        return
    if double is None:
        yield {"what": what, "cost": "; the device has no float64"}
    elif double.low > FAR * single.high:
        cost = f"; a product then takes {double.value / single.value:.1f} times as long"
        yield {"what": what, "cost": cost}


def _costly(named: MapName, key: str, most: float) -> Signs:
    """Yield a cost of a name that is far beyond that of any sound device."""
    figure = named.figures.get(key)
    if figure is not None and figure.low >= most:
        yield {key: shown(figure)}


def _transfer(_: Evidence, named: MapName) -> Signs:
    copying = named.figures.get("bandwidth")
    if copying is not None and copying.high < COPYING:
        yield {"what": f"copies run at {shown(copying)}"}


def _slower(_: Evidence, named: MapName) -> Signs:
    figures, device = named.figures, named.device
    product, host = figures.get("product"), figures.get("host_product")
    if device is None or device.in_host_memory or product is None or host is None:
        return
    if product.low > host.high:
        yield {"product": shown(product), "host": shown(host)}


def _not_examined(_: Evidence, named: MapName) -> Signs:
    for sign in failed(named, "no-time"):
        yield {**sign, "fix": "raise --timeout, or ask about fewer names"}
    for sign in failed(named, "replayed"):
        yield {**sign, "fix": "run gpumap doctor there"}


def shown(figure: Estimate) -> str:
    """Return a figure as text."""
    return units.same_prefix((figure.value,), figure.unit)[0]


WORK = {
    "GM401": Rule("partly", lambda _, named: _costly(named, "launch", LAUNCH)),
    "GM402": Rule("partly", _transfer),
    "GM403": Rule("partly", lambda _, named: _costly(named, "setup", SETTING_UP)),
    "GM404": Rule("partly", lambda k, n: limited(k, n, "serialised")),
    "GM405": Rule("partly", lambda _, named: _costly(named, "waiting", LAUNCH)),
    "GM406": Rule("partly", _slower),
    "GM407": Rule("partly", _float64),
    "GM409": Rule("partly", _not_examined, Exit.INCONCLUSIVE),
}
