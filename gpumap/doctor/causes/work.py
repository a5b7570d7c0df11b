"""GM4..: the device works, and the work is not the kind that it is fast at.

Small work loses on every device: that alone is no fault of a set-up, and is said of an example. A
name suffers from it where a cost is far beyond that of any sound device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.doctor.causes.cause import Cause, Shown
from gpumap.errors import Exit
from gpumap.model import Kind

if TYPE_CHECKING:
    from gpumap.doctor.evidence import Evidence, Measured, Named
    from gpumap.model import Estimate

LAUNCH = 1e-3  # seconds: a launch takes 5 to 100 us on sound devices
COPYING = 1e9  # B/s: a link of four lanes of 2003
FAR = 4.0  # times as long: twice the bytes at half the rate, as on any sound device, is 2
SETTING_UP = 10.0  # seconds: compilers of some drivers take that, once
_SERIAL = 0.75  # of the ideal: what noise alone does not take away
_DOUBLE = ("float64",)
_THEANOS = "float64"  # Theano's default


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
    if named.device is None or found.speedup.high >= _SERIAL * found.ideal.value:
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


CAUSES = (
    Cause(
        "GM401", "too-little-work", "partly", _little_work,
        "a launch alone takes {launch}: too little work in a call, and it never pays",
        "give each call more to do: larger batches, fewer calls",
        "Every launch has a price, however little it does. Where the work of a call takes less, "
        "the processor wins.",
        "A product of 16 x 16 is launched and waited for; above 1 ms no sound device is. Of an "
        "example: what is not copying and not computing is most of its time.",
        "the article Why is Theano rarely using the GPU?, example 2",
    ),
    Cause(
        "GM402", "transfer-bound", "partly", _transfer,
        "the work is bound by its copies: {what}",
        "keep data on the device, move larger pieces; `gpumap transfer-cost` has the prices",
        "x goes to the device and y comes back for each call, and that takes longer than the "
        "computing saves.",
        "4 MiB are copied and verified; below 1 GB/s, or above 1 ms for the smallest call, no "
        "sound device is. Of an example: copies are most of its time.",
        "the article Why is Theano rarely using the GPU?, example 2",
    ),
    Cause(
        "GM403", "setup-not-amortised", "partly", _set_up,
        "opening and compiling take {setup}, which the calls of a short program never earn",
        "keep the process running, and its cache of kernels (HOME, CUDA_CACHE_PATH) writable",
        "A device is opened and its kernels are compiled before the first result. That is paid "
        "once, and has to be earned back.",
        "The first call in a new session is timed, less a later one; above 10 s it is named.",
        "the article Why is Theano rarely using the GPU?: amortizing the cost of compilation",
    ),
    Cause(
        "GM404", "serialised", "partly", _serialised,
        "the devices take turns: {speedup} times as fast together, and {ideal} could be",
        "try another --backend, or one process for each device",
        "Several devices are asked for, and one works at a time: a driver that works inside the "
        "call, a lock, or a program that waits for each.",
        "A product for each name at once is timed against the same ones in turn; their spans do "
        "not overlap.",
        "gpumap.judge.explain; github.com/Theano/libgpuarray/issues/124",
    ),
    Cause(
        "GM405", "synchronises-on-every-fetch", "partly", _waiting,
        "waiting after each call adds {waiting} to it",
        "queue many calls and wait once; fetch the results at the end",
        "A program that fetches each result waits for the device each time: it then does nothing, "
        "and other devices take turns.",
        "Ten products are waited for one by one, and all at once; above 1 ms for each it is named.",
        "github.com/Theano/libgpuarray/issues/124; check_multi_gpu.py of Theano: 3.6 s for 1.7 s",
    ),
    Cause(
        "GM406", "slower-than-host", "partly", _slower,
        "a product of 512 x 512 takes {product} on the device, and {host} on the host",
        "map another device; compute on the host",
        "A device that is slower than the processor even at large products on resident data gains "
        "nothing.",
        "The same product is timed on both, in turn, and verified.",
        "gpumap.bench.search",
    ),
    Cause(
        "GM407", "float64", "partly", _float64,
        "{what}{cost}",
        "set floatX=float32 in THEANO_FLAGS or .theanorc, and cast the data",
        "Most GPUs have far fewer units for float64, and float64 moves twice the bytes. One "
        "operand of float64 makes the result float64 too.",
        "Theano's floatX is read; where it or a device is set, float64 is its default. Products of "
        "both types are timed; above 4 times as long it is named.",
        "Theano 1.0.5, the option floatX; the article sets floatX = 'float32'",
    ),
    Cause(
        "GM408", "unfused", "partly", _unfused,
        "the operations run one by one: {count} kernels behind the product take {all}, one pass "
        "takes {one}",
        "fuse them into one kernel (on CUDA cupy.fuse; elsewhere a kernel of your own)",
        "Each kernel reads all of its input and writes all of its output; fused, the data would be "
        "read and written once.",
        "The kernels of the chain are timed together, and one of them alone.",
        "the article Why is Theano rarely using the GPU?, example 3",
    ),
    Cause(
        "GM409", "not-examined", "partly", _not_examined,
        "it was not examined: {what}",
        "raise --timeout, or ask about fewer names",
        "The device was found, and whether it works was not seen: what is not known to be good "
        "does not pass.",
        "The time for all names had ended, or cut this one off before it had a fair time.",
        "gpumap.doctor.measuring",
        Exit.INCONCLUSIVE,
    ),
)  # fmt: skip
