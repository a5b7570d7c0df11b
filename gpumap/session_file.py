"""Theano-MPI's session file: what `tmlauncher -cfg=launch_session.cfg` has executed, as data.

    RULE               BSP, EASGD or GOSGD, in whatever case
    MODELFILE          the module of the network; comes with
    MODELCLASS         its class
    DEVICES            cuda0,cuda1: of this machine
    BSP_SYNC_TYPE      cdd (of gradients) or avg (of parameters)
    BSP_EXCH_STRATEGY  ar, nccl32, nccl16, asa32, asa16, copper or copper16

A device may be whatever a map may have. Of a key that is there twice the last one counts, and an
empty value is none: as in a shell. A line is KEY=VALUE or a comment. Quotes are those of a shell,
and nothing is expanded or executed: what only a shell could understand is an error.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.errors import Diagnostic, SourceError
from gpumap.text import cut, fix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GPUMAP = (sys.executable, "-P", "-m", "gpumap")  # -P: nothing of this folder
# Open MPI binds to cores of its own choice, and refuses more ranks than it has counted cores.
OF_MPIRUN = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

RULES = ("BSP", "EASGD", "GOSGD")
SYNC_TYPES = ("cdd", "avg")
STRATEGIES = ("ar", "nccl32", "nccl16", "asa32", "asa16", "copper", "copper16")


_KEYS = ("RULE", "MODELFILE", "MODELCLASS", "DEVICES")
_OF_BSP = ("BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_QUOTED = r"""'[^']*'|"[^"$`\\]*\""""
# Of a word: what is in quotes, and what has no meaning of its own to a shell.
_WORD = rf"""(?:{_QUOTED}|[^ \t'"$`;&|<>(){{}}\[\]*?~!\\])"""
_LINE = re.compile(
    rf"(?:(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=({_WORD}*+)(?:[ \t]+#.*)?|#.*)?", re.DOTALL
)
_DATA = "write KEY=VALUE on a line; put what has blanks, or what a shell expands, in single quotes"
_EXAMPLE = "write devices of this machine: DEVICES=cuda0,cuda1"


class Assignment(NamedTuple):
    """A key, its value, and the line where it stands."""

    key: str
    value: str
    line: int


def assignments(text: str, file: str) -> Iterator[Assignment]:
    """Yield the assignments of a text, in their order.

    Args:
        text: what the file holds.
        file: what it is called, for messages.

    Raises:
        SourceError: a line has something else than an assignment; the message names the line.
    """
    text = text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line.strip(" \t"))
        value = re.sub(_QUOTED, lambda part: part[0][1:-1], match[2] or "") if match else ""
        if match is None or not value.isprintable():
            found = cut(line.strip())
            what = f'"{found}" is no KEY=VALUE; a cfg is read as data'
            raise SourceError(f"{file}, line {number}: {what}", _DATA)
        if match[1]:
            yield Assignment(match[1], value, number)


class Session(NamedTuple):
    """A training as Theano-MPI has it; None is what the file does not say."""

    rule: str | None
    modelfile: str | None
    modelclass: str | None
    map: str  # of its devices
    sync_type: str | None
    strategy: str | None
    notes: tuple[Diagnostic, ...] = ()


def read(text: str, file: str) -> Session:
    """Return what a session file says.

    Args:
        text: what it holds.
        file: what it is called, for messages.

    Raises:
        SourceError: something in it cannot be understood; the message names the line.
    """
    every = {each.key: each for each in assignments(text, file)}
    given = _Given(every, file)
    rule = given.choice("RULE", RULES)
    bsp = rule in (None, "BSP")
    known = (*_KEYS, *_OF_BSP) if bsp else _KEYS
    ignored = (each for each in every.values() if each.key not in known)
    notes = (note(f"{file}, line {each.line}: {cut(each.key)} is ignored") for each in ignored)
    return Session(
        rule,
        *given.model(),
        given.map(),
        given.choice("BSP_SYNC_TYPE", SYNC_TYPES) if bsp else None,
        given.choice("BSP_EXCH_STRATEGY", STRATEGIES) if bsp else None,
        tuple(notes),
    )


class _Given(NamedTuple):
    """The assignments that count, by their keys."""

    found: Mapping[str, Assignment]
    file: str

    def text(self, key: str) -> str | None:
        """Return the value of a key; None if it has none."""
        return (self.found[key].value.strip() or None) if key in self.found else None

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        """Return the value of a key as `choices` write it, in whatever case it is."""
        text = self.text(key)
        known = {choice.upper(): choice for choice in choices}
        if text is not None and text.upper() not in known:
            hint = fix(text, choices, f"choose one of {', '.join(choices)}")
            raise self._wrong(key, f'{key} cannot be "{cut(text)}" here', hint)
        return text and known[text.upper()]

    def model(self) -> tuple[str | None, str | None]:
        """Return the module and the class of the network: both, or none."""
        file, class_ = self.text("MODELFILE"), self.text("MODELCLASS")
        if (file is None) == (class_ is None):
            return file, class_
        there, lacking = ("MODELFILE", "MODELCLASS") if file else ("MODELCLASS", "MODELFILE")
        message = f"{there} without {lacking}: that is half a network"
        raise self._wrong(there, message, f"add {lacking}=..., or omit both")

    def map(self) -> str:
        """Return the map of the devices, in their order."""
        if "DEVICES" not in self.found:
            raise SourceError(f"{self.file}: there is no DEVICES", _EXAMPLE)
        text = self.text("DEVICES")
        if text is None:
            raise self._wrong("DEVICES", "DEVICES names no device", _EXAMPLE)
        if ";" in text or "->" in text:  # else it would be another entry of the map
            hint = f'devices are separated by ",": {_EXAMPLE}'
            raise self._wrong("DEVICES", f'"{cut(text)}" are no devices', hint)
        return ";".join(f"dev{n}->{each.strip()}" for n, each in enumerate(text.split(",")))

    def _wrong(self, key: str, problem: str, hint: str) -> SourceError:
        return SourceError(f"{self.file}, line {self.found[key].line}: {problem}", hint)


def is_model_class(source: str, name: str) -> bool:
    """Return whether a module's text has a class of that name with Theano-MPI's train_iter."""
    try:
        classes = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: too deep
        return False
    methods = [n for each in classes if each.name == name for n in each.body]
    return any(isinstance(n, ast.FunctionDef) and n.name == "train_iter" for n in methods)


def training(
    entries: str, about: Mapping[str, Any], network: tuple[str, str], files: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command that trains a ModelClass on each name of a map.

    Args:
        entries: the map.
        about: the rule, as the fields of `Chosen`.
        network: module and class.
        files: of the epochs and of the parameters, where those are to be written.
    """
    given = ("-m", "gpumap.training.model_class", json.dumps(about), *network, *files)
    if ";" not in entries or not _by_mpi():
        return (*GPUMAP, "run", entries, "--quiet", "--", sys.executable, *given)
    start = ("mpirun", "-n", str(1 + entries.count(";")), *GPUMAP, "exec", entries, "--quiet")
    return (*start, "--", sys.executable, "-m", "mpi4py", *given)


def _by_mpi() -> bool:
    """Return whether several ranks are MPI's: not where PyTorch is there alone."""
    return find_spec("mpi4py") is not None or find_spec("torch") is None


def note(message: str) -> Diagnostic:
    """Return what is worth knowing of a session."""
    return Diagnostic("session", message, severity="note")
