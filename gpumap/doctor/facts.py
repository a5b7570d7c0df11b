"""Facts of a framework, its interpreter and the machine: one structure, read or recorded.

A recorded report of a user and this machine are the same mapping of plain values. Anything
else in it is text that some program printed, and is searched as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    Version = tuple[int, ...]

FRAMEWORKS = ("torch", "jax", "tensorflow", "cupy", "onnxruntime")  # whose libraries are queried
_FLAGS = re.IGNORECASE | re.MULTILINE
_SHOWN = 160  # characters of a line
_LONGEST = 2000  # characters of a fact
_PRINTED = 100_000  # characters of all that is searched
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_LOCAL = re.compile(r"\+(cu|rocm|cuda)([\d.]+)")
_BUILD = re.compile(r"cuda_?(\d+\.\d+)")  # of a conda build: py3.8_cuda10.2_cudnn7.6.5_0
_GFX = re.compile(r"\bgfx[0-9a-f]{3,4}\b", re.IGNORECASE)
_ARCH = re.compile(r"(?:sm|compute)_(\d+?)(\d)[af]?$")


@cache
def tables() -> Mapping[str, Any]:
    """Return the compatibility tables of frameworks, CUDA and drivers."""
    return shipped("gpumap.doctor", "tables.toml")


@cache
def patterns() -> Mapping[str, Any]:
    """Return the patterns of printed lines, by cause or group and certainty."""
    return shipped("gpumap.doctor", "lines.toml")


def version(text: object) -> Version:
    """Return the numbers that a version begins with; () where there are none."""
    match = _NUMBERS.search(str(text or ""))
    return tuple(int(part[:9]) for part in match[0].split(".")) if match else ()


def dotted(numbers: Version) -> str:
    """Return a version as text."""
    return ".".join(map(str, numbers))


def row(table: Mapping[str, Any], of: Version) -> Any:
    """Return the row of the newest version that is not newer than `of`; None before the first."""
    known = [(version(key), value) for key, value in table.items()]
    return next((value for key, value in reversed(known) if key <= of), None) if of else None


@dataclass(frozen=True)
class Facts:
    """Known facts; None, () or an empty text is unknown.

    Attributes:
        raw: The facts by name, as they were read or recorded.
        framework: torch, jax, tensorflow, cupy, onnxruntime or another.
    """

    raw: Mapping[str, Any]
    framework: str = ""

    def text(self, *keys: str) -> str:
        """Return the first known one of some facts as text."""
        return next((str(self.raw[k])[:_LONGEST] for k in keys if self.raw.get(k) is not None), "")

    def number(self, *keys: str) -> Version:
        """Return the first of some facts that has a version, as numbers."""
        return next((numbers for k in keys if (numbers := version(self.raw.get(k)))), ())

    def count(self, key: str) -> int | None:
        """Return a fact that is a whole number."""
        value = self.raw.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a fact that is a list of texts."""
        value = self.raw.get(key)
        return tuple(map(str, value)) if isinstance(value, list | tuple) else ()

    @cached_property
    def lines(self) -> str:
        """Return everything that programs printed, a line each."""
        silent = tables()["facts"]["silent"].split()
        named = (value for key, value in self.raw.items() if key not in silent)
        return "\n".join(text for value in named for text in _texts(value))[:_PRINTED]

    def line(self, key: str, certainty: str = "") -> str:
        """Return the first printed line of a cause or group; "" without one."""
        for level, every in patterns()[key].items():
            pattern = "|".join(f"(?:{each})" for each in every)
            if certainty in ("", level) and (match := re.search(pattern, self.lines, _FLAGS)):
                start = self.lines.rfind("\n", 0, match.start()) + 1
                end = self.lines.find("\n", match.end())
                return self.lines[start : end if end >= 0 else None].strip()[:_SHOWN]
        return ""

    def prints(self, key: str) -> bool:
        """Return whether a program printed a line of a cause or group."""
        return bool(self.line(key))

    @cached_property
    def packages(self) -> Mapping[str, str]:
        """Return installed packages by their normalised name; "" where no version is known."""
        raw = self.raw.get("packages")
        every = raw.items() if isinstance(raw, dict) else ()
        return {re.sub(r"[-_.]+", "-", str(k)).lower(): str(v or "") for k, v in every}

    @cached_property
    def env(self) -> Mapping[str, str]:
        """Return the variables that are set."""
        raw = self.raw.get("env")
        every = raw.items() if isinstance(raw, dict) else ()
        return {str(k): str(v)[:_LONGEST] for k, v in every if v is not None}

    @cached_property
    def package(self) -> tuple[str, str]:
        """Return the framework's package and its version, if one is known."""
        names = tables()["packages"].get(self.framework, self.framework).split()
        fits = (n for n in names for n in matching(n, self.packages))
        return next(((name, self.packages[name]) for name in fits), ("", ""))

    @cached_property
    def release(self) -> Version:
        """Return the version of the framework."""
        return version(self.package[1]) or self.number("framework_version", "version")

    @cached_property
    def built_cuda(self) -> Version:
        """Return the CUDA that the framework itself was built for."""
        name, text = self.package
        if match := _BUILD.search(text):
            return version(match[1])
        local = next((m for v in (text, *self.packages.values()) if (m := _LOCAL.search(v))), None)
        if local is not None and local[1] == "cu":
            return (int(local[2][:-1]), int(local[2][-1:])) if local[2].isdecimal() else ()
        if match := re.search(r"cuda(\d\d)(x|\d)$", name):
            return (int(match[1]),) if match[2] == "x" else (int(match[1]), int(match[2]))
        wheels = (v for n, v in self.packages.items() if n.startswith("nvidia-cuda-runtime"))
        return self.number("torch_version_cuda", "built_cuda") or version(next(wheels, ""))[:2]

    @cached_property
    def cuda(self) -> Version:
        """Return the CUDA runtime that is used, of the build or of the machine."""
        known = self.built_cuda or self.number("runtime_cuda", "torch_version_cuda")
        loads = row(tables()["loads"].get(self.package[0].removesuffix("-gpu"), {}), self.release)
        return known or version(loads[0] if loads and self.package[0] == "onnxruntime-gpu" else "")

    @cached_property
    def driver_cuda(self) -> Version:
        """Return the newest CUDA that the driver offers."""
        if match := re.search(r"found version (\d{4,5})\b", self.lines):
            return int(match[1]) // 1000, int(match[1]) % 1000 // 10
        return self.number("driver_cuda") or self.native_cuda

    @cached_property
    def native_cuda(self) -> Version:
        """Return the newest CUDA that a driver of this version comes with."""
        return version(row(tables()["driver"], self.number("driver")[:1]))

    @cached_property
    def gpu(self) -> str:
        """Return the names of the devices."""
        return self.text("gpu", "gpus", "device_name")

    @cached_property
    def vendor(self) -> str:
        """Return the vendor of the devices, by their names: nvidia, amd, intel, apple."""
        stated = self.text("vendor")
        names, gpu = tables()["names"].items(), self.gpu.lower()
        every = (vendor.split()[0] for vendor, pattern in names if re.search(pattern, gpu))
        return stated or next(every, "amd" if self.raw.get("rocm") else "")

    @cached_property
    def capability(self) -> Version:
        """Return the compute capability of the device: of the oldest, where there are several."""
        if stated := self.number("capability"):
            return stated
        cards = tables()["card"].items()
        parts = re.split(r"[,;/]", self.gpu.lower())
        firsts = (next((c for names, c in cards if re.search(names, p)), None) for p in parts)
        return min((version(entry) for entry in firsts if entry), default=())

    @cached_property
    def gfx(self) -> str:
        """Return the architecture of an AMD device."""
        match = _GFX.search(f"{self.gpu} {self.text('gfx', 'capability')}")
        return match[0].lower() if match else ""

    @cached_property
    def architectures(self) -> tuple[Version, ...]:
        """Return the capabilities that the build has code for."""
        every = (_ARCH.match(word.strip()) for word in self.strings("arch_list"))
        return tuple(sorted({(int(m[1]), int(m[2])) for m in every if m}))

    @cached_property
    def system(self) -> str:
        """Return the operating system in lower case."""
        return self.text("os", "platform").lower()

    @cached_property
    def container(self) -> bool:
        """Return whether the program runs in a container."""
        return bool(self.raw.get("container") or self.raw.get("image"))

    @cached_property
    def wsl(self) -> bool:
        """Return whether Linux runs on Windows."""
        desktop = "docker desktop" in self.system and "windows" in self.system
        return desktop or bool(re.search(r"\bwsl", self.system)) or self.raw.get("wsl") is True

    @cached_property
    def blind(self) -> bool:
        """Return whether a program said that there is no driver, or no device."""
        return any(self.prints(key) for key in ("no-driver", "no-device", "GM514"))

    def as_texts(self) -> Mapping[str, str]:
        """Return every fact as text by its name, with those derived from others."""
        raw = {
            k: ", ".join(map(str, v)) if isinstance(v, list) else str(v)
            for k, v in self.raw.items()
            if v is not None
        }
        (package, version_), command = self.package, self.text("install_command", "command").lower()
        rocm = bool(self.raw.get("torch_version_hip")) or "rocm" in f"{package} {version_}"
        known = {
            "framework": self.framework, "package": package, "version": version_,
            "vendor": self.vendor, "system": self.system, "cuda": dotted(self.cuda),
            "command": command, "gpu": self.gpu, "wsl": str(self.wsl), "blind": str(self.blind),
            "cuda_build": dotted(self.built_cuda), "rocm_build": str(rocm),
            "container": str(self.container),
        }  # fmt: skip
        known |= {f"env.{name}": value for name, value in self.env.items()}
        known |= {f"package.{name}": value for name, value in self.packages.items()}
        known |= {f"prints.{key}": line for key in patterns() if (line := self.line(key))}
        return {key: value[:_LONGEST] for key, value in (raw | known).items()}


def matching(pattern: str, packages: Mapping[str, object]) -> Iterator[str]:
    """Yield installed packages that match a name, or a prefix with a star."""
    begun, star, _ = pattern.partition("*")
    return (name for name in packages if name == pattern or (star and name.startswith(begun)))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


class Match(NamedTuple):
    """A match of a cause with the facts.

    certain: the facts alone prove it; else it is likely. rank: of likely ones the lower is first.
    names: packages that its fix is about.
    """

    code: str
    what: str
    certain: bool = False
    rank: int = 1
    names: tuple[str, ...] = ()


def printed(facts: Facts) -> Iterator[Match]:
    """Yield each cause that matches the output of programs."""
    for code in patterns():
        for level in ("certain", "likely"):
            named = code.startswith("GM") and level in patterns()[code]
            if named and (text := facts.line(code, level)):
                yield Match(code, f"printed: {text}", certain=level == "certain")
                break


def signs(facts: Facts) -> Iterator[Match]:
    """Yield each cause whose facts match the table of signs."""
    known = facts.as_texts()

    def holds(keys: Mapping[str, str]) -> list[bool]:
        texts = ((known.get(key), pattern) for key, pattern in keys.items())
        return [t is not None and bool(re.search(p, t, re.IGNORECASE)) for t, p in texts]

    for row in shipped("gpumap.doctor", "signs.toml")["sign"]:
        if all(holds(row["when"])) and not any(holds(row.get("unless", {}))):
            certain = "sure" in row and all(holds(row["sure"]))
            text = re.sub(r"\{([\w.-]+)\}", lambda each: known.get(each[1], ""), row["what"])
            yield Match(row["code"], text[:_SHOWN], certain, int(row.get("rank", "1")))
