"""What the exceptions of other people's libraries mean, by the tables of third_party.toml.

No library is imported for it. An exception is known by the full names of its class and of those
that it derives from, most specific first, and then by the status or the words that it carries.
Whatever is not in the table is no device's doing, and passes as it is.

Why there is no CUDA device, a library tells by a status and no more: the driver's own version, NVML
and CUDA_VISIBLE_DEVICES say which of several causes it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap import errors
from gpumap.extras import install, pip
from gpumap.files import shipped
from gpumap.machine.cuda import MISMATCH, VARIABLE, Why, driver, explain, no_driver, version_text
from gpumap.machine.nvml import NvmlUnavailable, gpus, nameable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.machine.cuda import CudaDriver
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Device


class Outcome(NamedTuple):
    """An error of ours, and its fix."""

    error: type[errors.GpumapError]
    hint: str


Meaning = Callable[[BaseException], Outcome | None]  # of an exception; None: a caller's mistake


def _numbered(attribute: str, names: Mapping[str, Mapping[str, str]]) -> Meaning:
    """Return what the number of an error stands for; one without a name is a failing device."""
    outcomes: dict[Any, Outcome] = {
        int(number): _OUTCOMES[key] for key, each in names.items() for number in each
    }
    return lambda error: outcomes.get(getattr(error, attribute, None), _OUTCOMES["FAILED"])


def _worded(groups: Mapping[str, Sequence[str]], otherwise: Outcome | None) -> Meaning:
    """Return what the words of an error stand for: the first that are found decide."""
    outcomes = {sign: _OUTCOMES[key] for key, signs in groups.items() for sign in signs}

    def meaning(error: BaseException) -> Outcome | None:
        message = message_of(error)
        return next((outcomes[sign] for sign in outcomes if sign in message), otherwise)

    return meaning


def _meanings() -> Iterator[tuple[str, Meaning]]:
    """Yield each meaning of the file, with its name."""
    for name, found in _OUTCOMES.items():
        yield name, _worded({}, found)
    for kind in _RAW["numbers"].values():
        for name, attribute in kind["attributes"].items():
            yield name, _numbered(attribute, kind["names"])
    for name, groups in _RAW["words"].items():
        yield name, _worded(groups, None if name == "RANGE" else _OUTCOMES["FAILED"])


# Read before there is an error: in that moment there may be no memory, or no descriptor.
_RAW: Mapping[str, Any] = shipped("gpumap.backends", "third_party.toml")
NO_BLAS: str = _RAW["outcomes"]["BLAS"][1]
_OUTCOMES = {
    name: Outcome(getattr(errors, error), hint.format(cuda13=install("cuda13")))
    for name, (error, hint) in _RAW["outcomes"].items()
}
_MEANINGS = dict(_meanings())
# Full name of a class -> what it means; None where it is a caller's mistake.
TABLE = {name: _MEANINGS.get(meaning) for name, meaning in _RAW["classes"].items()}


def outcome(error: BaseException) -> Outcome | None:
    """Return what the table says of an exception; None where it is no device's doing."""
    for kind in type(error).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in TABLE:
            meaning = TABLE[name]
            return meaning(error) if meaning else None
    return None


def message_of(error: BaseException) -> str:
    """Return what an exception says, made safe to print; libgpuarray's messages are bytes."""
    first = error.args[0] if error.args else None
    message = first.decode(errors="replace") if isinstance(first, bytes) else str(error)
    return message or type(error).__name__


@contextmanager
def third_party_errors(device: Device) -> Iterator[None]:
    """Turn what a library raises while it works on `device` into an error of ours.

    Raises:
        GpumapError: the class and the hint are the table's, the words are the library's.
    """
    try:
        yield
    except Exception as error:
        meaning = outcome(error)
        if meaning is None:
            raise
        message = f"{device.ref} ({device.name}): {message_of(error)}"
        raise meaning.error(message, meaning.hint) from error


class Current:
    """A device and a stream that are current inside; a library's errors become gpumap's.

    Entered for every call: a generator and a table of errors would cost as much as a launch.
    """

    __slots__ = ("_device", "_on", "_stream")

    def __init__(self, device: Device, on: Any, stream: Any) -> None:
        self._device = device
        self._on = on
        self._stream = stream

    def __enter__(self) -> None:
        on = self._on
        try:
            on.__enter__()
            try:
                self._stream.__enter__()
            except BaseException:
                on.__exit__(None, None, None)
                raise
        except Exception as error:  # noqa: BLE001 - the table decides
            self._raise(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._stream.__exit__(kind, error, trace)
        self._on.__exit__(kind, error, trace)
        if isinstance(error, Exception):
            self._raise(error)

    def _raise(self, error: Exception) -> None:
        with third_party_errors(self._device):
            raise error


NO_DEVICE = 100
TOO_OLD = 35


_REASONS = {int(n): Why(**texts) for n, texts in _RAW["reasons"].items()} | {803: MISMATCH}
_UNVERSIONED = {file: Why(**texts) for file, texts in _RAW["unversioned"].items()}


@dataclass
class Cuda:
    """What surrounds a library that asks for CUDA devices: its environment, and NVML."""

    env: Mapping[str, str]

    @cached_property
    def _answer(self) -> tuple[tuple[NvmlGpu, ...] | None, str | None]:
        try:
            return gpus(), None
        except NvmlUnavailable as error:
            return None, None if error.status is None else error.reason

    @property
    def gpus(self) -> tuple[NvmlGpu, ...]:
        """Return what NVML knows; nothing where it does not answer."""
        return self._answer[0] or ()

    @cached_property
    def driver(self) -> CudaDriver | None:
        """Return what the driver itself answers; None where there is none."""
        return driver()

    def hidden(self, shown: int) -> Why | None:
        """Return what CUDA_VISIBLE_DEVICES hides, if CUDA shows so many devices."""
        return explain(self.env.get(VARIABLE), nameable(self._answer[0]), shown)

    def refused(self, words: str) -> Why:
        """Return why a library that loads CUDA's parts itself has no device.

        Args:
            words: what it says; empty where it counted none.
        """
        driver = self.driver
        if driver is None:
            return no_driver()
        if driver.status or not driver.devices:
            return self.none(driver.status, driver.version, words)
        unknown = Why(words or "it finds no device", "see what `nvidia-smi -L` lists")
        return next((why for file, why in _UNVERSIONED.items() if f'"{file}"' in words), unknown)

    def none(self, status: int, version: int, words: str = "") -> Why:
        """Return why CUDA shows no device.

        Args:
            status: what CUDA answered; 0 and no device is as good as its status 100.
            version: the CUDA version of the driver; 0: there is none.
            words: what the library says of a status that is in no table.
        """
        if version == 0:
            return no_driver()
        if status in (0, NO_DEVICE):
            return self._no_device()
        message = words or "it gives no reason"
        driver = f"the NVIDIA driver ({version_text(version)}) fails with status {status}"
        return _REASONS.get(status, Why(f"{driver}: {message}", "see whether `nvidia-smi` works"))

    def _no_device(self) -> Why:
        if (why := self.hidden(0)) is not None:
            return why
        nvml = f" (NVML: {self._answer[1]})" if self._answer[1] else ""
        return Why(
            f"the NVIDIA driver is there, but it shows no device{nvml}",
            "see what `nvidia-smi -L` lists; start a container with --gpus all",
        )


def too_old(version: int, wanted: int) -> Why | None:
    """Return that a driver is for an older CUDA than a library wants; None if it is not.

    One driver runs what is built for any minor version of its CUDA. Only one CuPy can be
    installed, and each is built for one CUDA.
    """
    major, needed = version // 1000, wanted // 1000
    if major >= needed:
        return None
    reason = f"the NVIDIA driver is too old: it is for {version_text(version)}, this CuPy for CUDA "
    update = f"install a driver for CUDA {needed}"
    if needed in _DRIVERS:
        update += f" ({_DRIVERS[needed]} or newer)"
    if major in _DRIVERS:
        others = pip("uninstall", f"cupy-cuda{needed}x")
        update = f"{others} && {install(f'cuda{major}')}; or {update}"
    return Why(f"{reason}{needed}", update, "old-driver")


_DRIVERS = {12: 525, 13: 580}  # CUDA -> its first driver on Linux; each has an extra of its name
