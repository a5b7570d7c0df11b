"""GM4..: the device works, and the work is not the kind that it is fast at.

Small work loses on every device: that alone is no fault of a set-up, and is said of an example. A
name suffers from it where a cost is far beyond that of any sound device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.doctor.causes.cause import IDEAL, Rule, Shown
from gpumap.errors import Exit
from gpumap.model import Kind

if TYPE_CHECKING:
    from gpumap.doctor.evidence import Evidence, Measured, Named
    from gpumap.model import Estimate

LAUNCH = 1e-3  # seconds: a launch takes 5 to 100 us on sound devices
COPYING = 1e9  # B/s: a link of four lanes of 2003
FAR = 4.0  # times as long: twice the bytes at half the rate, as on any sound device, is 2
SETTING_UP = 10.0  # seconds: compilers of some drivers take that, once
_DOUBLE = ("float64",)


def _float64(known: Evidence, named: Named) -> Shown | None:
    chosen = known.theano.get("floatX")
    theanos = "device" in known.theano or "contexts" in known.theano
    if named.kind is Kind.CPU or named.device is None:
        return None
    if chosen is None and not theanos:
        return None
    if chosen is not None and chosen.value.strip() not in _DOUBLE:
        return None
    what = f"floatX=float64 ({chosen.origin})" if chosen else "floatX is not set: it is float64"
    return _far_slower(what, named.measured)


def _far_slower(what: str, measured: Measured) -> Shown | None:
    """Return what float64 costs, where that is far more than on any sound device."""
    single, double = measured.figures.get("product"), measured.figures.get("double")
    if single is None or measured.failure is not None:
        return None
    if double is None:
        return Shown({"what": what, "cost": "; the device has no float64"}, {"single": single})
    if double.low <= FAR * single.high:
        return None
    cost = f"; a product then takes {double.value / single.value:.1f} times as long"
    return Shown({"what": what, "cost": cost}, {"single": single, "double": double})


def _little_work(_: Evidence, named: Named) -> Shown | None:
    launch = named.measured.figures.get("launch")
    if launch is None or launch.low < LAUNCH:
        return None
    return Shown({"launch": shown(launch)}, {"launch": launch})


def _transfer(_: Evidence, named: Named) -> Shown | None:
    figures = named.measured.figures
    call, launch, copying = (figures.get(key) for key in ("call", "launch", "bandwidth"))
    if copying is not None and copying.high < COPYING:
        return Shown({"what": f"copies run at {shown(copying)}"}, {"bandwidth": copying})
    if call is None or launch is None or call.low - launch.high < LAUNCH:
        return None
    what = f"a call with its copies takes {shown(call)}, and a launch {shown(launch)}"
    return Shown({"what": what}, {"call": call, "launch": launch})


def _set_up(_: Evidence, named: Named) -> Shown | None:
    set_up = named.measured.figures.get("setup")
    if set_up is None or set_up.low < SETTING_UP:
        return None
    return Shown({"setup": shown(set_up)}, {"setup": set_up})


def _waiting(_: Evidence, named: Named) -> Shown | None:
    waiting = named.measured.figures.get("waiting")
    if waiting is None or waiting.low < LAUNCH:
        return None
    return Shown({"waiting": shown(waiting)}, {"waiting": waiting})


def _serialised(known: Evidence, named: Named) -> Shown | None:
    found = known.together
    if found is None or found.explanation is None or found.explanation.cause != "serialised":
        return None
    if named.device is None or found.speedup.high >= IDEAL * found.ideal.value:
        return None
    words = {"speedup": f"{found.speedup.value:.2f}", "ideal": f"{found.ideal.value:.2f}"}
    return Shown(words, {"speedup": found.speedup, "ideal": found.ideal})


def _slower(_: Evidence, named: Named) -> Shown | None:
    figures, device = named.measured.figures, named.device
    product, host = figures.get("product"), figures.get("host_product")
    if device is None or device.in_host_memory or product is None or host is None:
        return None
    if product.low <= host.high:
        return None
    words = {"product": shown(product), "host": shown(host)}
    return Shown(words, {"product": product, "host": host})


def _unfused(_: Evidence, __: Named) -> Shown | None:
    """Return None: it is a cause of an example, found there, and never of a set-up."""
    return None


def _not_examined(_: Evidence, named: Named) -> Shown | None:
    failure = named.measured.failure
    return Shown({"what": failure.text}) if failure and failure.code == "no-time" else None


def shown(figure: Estimate) -> str:
    """Return a figure as text."""
    return units.together((figure.value,), figure.unit)[0]


RULES = {
    "GM401": Rule("partly", _little_work),
    "GM402": Rule("partly", _transfer),
    "GM403": Rule("partly", _set_up),
    "GM404": Rule("partly", _serialised),
    "GM405": Rule("partly", _waiting),
    "GM406": Rule("partly", _slower),
    "GM407": Rule("partly", _float64),
    "GM408": Rule("partly", _unfused),
    "GM409": Rule("partly", _not_examined, Exit.INCONCLUSIVE),
}
