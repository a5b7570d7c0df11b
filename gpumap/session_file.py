"""Theano-MPI's session file: what `tmlauncher -cfg=launch_session.cfg` has executed, as data.

    RULE               BSP, EASGD or GOSGD, in whatever case
    MODELFILE          the module of the network; comes with
    MODELCLASS         its class
    DEVICES            cuda0,cuda1 or, by host, ("node0:cuda0" "node1:cuda0,cuda1")
    BSP_SYNC_TYPE      cdd (of gradients) or avg (of parameters)
    BSP_EXCH_STRATEGY  ar, nccl32, nccl16, asa32, asa16, copper or copper16

A device may be whatever a map may have. Of a key that is there twice the last one counts, and an
empty value is none: as in a shell. A line is KEY=VALUE, KEY=(VALUES) or a comment; an array may go
over several lines. Quotes are those of a shell, and nothing is expanded or executed: what only a
shell could understand is an error.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from gpumap.errors import Diagnostic, SourceError
from gpumap.text import fix, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

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


_KEYS = ("RULE", "MODELFILE", "MODELCLASS", "DEVICES", "BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_OF_BSP = ("BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_SHOWN = 60  # characters of the user's text inside a message
_QUOTED = r"""'[^'\n]*'|"[^"$`\\\n]*\""""
# Of a word: what is in quotes, and what has no meaning of its own to a shell.
_WORD = rf"""(?:{_QUOTED}|[^ \t\n'"$`;&|<>(){{}}\[\]*?~!\\])"""
_ARRAY = rf"(?:[ \t\n]|(?<=[ \t\n(])#[^\n]*|{_WORD})*+"
_LINE = re.compile(
    rf"[ \t]*+(?:(?:export[ \t]++)?([A-Za-z_][A-Za-z0-9_]*)=(?:\(({_ARRAY})\)|({_WORD}*+))"
    r"(?:[ \t]++#[^\n]*)?[ \t]*|(?:#[^\n]*)?)(?:\n|\Z)"
)
_TOKEN = re.compile(rf"#[^\n]*|{_WORD}++")
_DATA = "write KEY=VALUE on a line; put what has blanks, or what a shell expands, in single quotes"
_EXAMPLE = 'write DEVICES=cuda0,cuda1, or by host DEVICES=("node0:cuda0" "node1:cuda0,cuda1")'
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"(?:cuda|opencl|cpu)[0-9]*|cuda@.*")  # before a ":": no host
_LOCAL = ("localhost", "127.0.0.1")


class Assignment(NamedTuple):
    """A key, its value (of an array any number of words), and the line where it begins."""

    key: str
    words: tuple[str, ...]
    line: int
    is_array: bool = False


def assignments(text: str, file: str) -> Iterator[Assignment]:
    """Yield the assignments of a text, in their order.

    Args:
        text: what the file holds.
        file: what it is called, for messages.

    Raises:
        SourceError: a line has something else than an assignment; the message names the line.
    """
    text = text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n").replace("\r", "\n")
    place, line = 0, 1
    while place < len(text):
        match = _LINE.match(text, place)
        words = None if match is None else _words(match)
        if match is None or any(not c.isprintable() and c != "\t" for c in "".join(words or ())):
            found = _short(text[place:].partition("\n")[0].strip())
            raise wrong(file, line, f'"{found}" is no KEY=VALUE; a cfg is read as data', _DATA)
        if words is not None:
            yield Assignment(match[1], words, line, is_array=match[2] is not None)
        line += text.count("\n", place, match.end())
        place = match.end()


def _words(match: re.Match[str]) -> tuple[str, ...] | None:
    """Return the words of a value or an array, without their quotes; None where is no key."""
    if match[1] is None:
        return None
    if match[2] is None:
        return (_unquoted(match[3]),)
    tokens = (token[0] for token in _TOKEN.finditer(match[2]))
    return tuple(_unquoted(token) for token in tokens if token[0] != "#")


def _unquoted(word: str) -> str:
    return re.sub(_QUOTED, lambda part: part[0][1:-1], word)


def wrong(file: str, line: int, problem: str, hint: str) -> SourceError:
    """Return the error of a line."""
    return SourceError(f"{file}, line {line}: {problem}", hint)


class Node(NamedTuple):
    """The devices of a host, in their order; `here`: it is this machine."""

    host: str
    devices: tuple[str, ...]
    here: bool

    @property
    def map(self) -> str:
        """Return them as a map."""
        return ";".join(f"dev{number}->{device}" for number, device in enumerate(self.devices))


class Session(NamedTuple):
    """A training as Theano-MPI has it; None is what the file does not say."""

    rule: str | None
    modelfile: str | None
    modelclass: str | None
    nodes: tuple[Node, ...]
    sync_type: str | None
    strategy: str | None
    notes: tuple[Diagnostic, ...] = ()


def read(text: str, file: str, machine: str) -> Session:
    """Return what a session file says.

    Args:
        text: what it holds.
        file: what it is called, for messages.
        machine: what this machine is called.

    Raises:
        SourceError: something in it cannot be understood; the message names the line.
    """
    every = list(assignments(text, file))
    given = _Given({each.key: each for each in every if each.key in _KEYS}, file)
    rule = given.choice("RULE", RULES)
    bsp = rule in (None, "BSP")
    notes = [*_unclear(every, file), *given.missing(rule)]
    if not bsp:
        unused = [key for key in _OF_BSP if given.text(key)]
        notes += [note(f"{file}: {key} is of BSP, and ignored with {rule}") for key in unused]
    return Session(
        rule,
        *given.model(),
        given.nodes(machine),
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
        if key not in self.found:
            return None
        if self.found[key].is_array:
            raise self._wrong(key, f"{key} is an array", f"write one value: {key}=...")
        return self.found[key].words[0].strip() or None

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        """Return the value of a key as `choices` write it, in whatever case it is."""
        text = self.text(key)
        known = {choice.upper(): choice for choice in choices}
        if text is not None and text.upper() not in known:
            hint = fix(text, choices, f"choose one of {', '.join(choices)}")
            raise self._wrong(key, f'{key} cannot be "{_short(text)}" here', hint)
        return text and known[text.upper()]

    def model(self) -> tuple[str | None, str | None]:
        """Return the module and the class of the network: both, or none."""
        file, class_ = self.text("MODELFILE"), self.text("MODELCLASS")
        if (file is None) == (class_ is None):
            return file, class_
        there, lacking = ("MODELFILE", "MODELCLASS") if file else ("MODELCLASS", "MODELFILE")
        message = f"{there} without {lacking}: that is half a network"
        raise self._wrong(there, message, f"add {lacking}=..., or omit both")

    def nodes(self, machine: str) -> tuple[Node, ...]:
        """Return the devices of each host, in the order of the hosts."""
        if "DEVICES" not in self.found:
            raise SourceError(f"{self.file}: there is no DEVICES", _EXAMPLE)
        found: dict[str, tuple[str, list[str]]] = {}
        for word in self.found["DEVICES"].words:
            host, devices = self._split(word)
            key = "" if is_here(host, machine) else host.lower()
            found.setdefault(key, (host, []))[1].extend(devices)
        if not found:
            raise self._wrong("DEVICES", "DEVICES names no device", _EXAMPLE)
        return tuple(Node(host, tuple(devices), not key) for key, (host, devices) in found.items())

    def _split(self, word: str) -> tuple[str, list[str]]:
        """Return the host of a word, this one where it names none, and its devices."""
        host, colon, rest = word.strip().partition(":")
        if not colon or "," in host or _DEVICE.fullmatch(host):
            host, rest = _LOCAL[0], word
        if not _HOST.fullmatch(host):
            raise self._wrong("DEVICES", f'"{_short(host)}" is no name of a host', _EXAMPLE)
        if not rest.strip():
            raise self._wrong("DEVICES", "DEVICES names no device", _EXAMPLE)
        if ";" in rest or "->" in rest:  # else it would be another entry of the map
            hint = f'devices are separated by ",": {_EXAMPLE}'
            raise self._wrong("DEVICES", f'"{_short(rest)}" are no devices', hint)
        return host, [device.strip() for device in rest.split(",")]

    def missing(self, rule: str | None) -> Iterator[Diagnostic]:
        """Yield what the file leaves to bench train, and what is otherwise there."""
        if rule is None:
            yield note(f"{self.file}: no RULE: bench train's own is used, bsp")
        if rule == "EASGD":
            yield note(
                "with EASGD the first device trains too; Theano-MPI's only serves the others"
            )
        if not self.text("MODELFILE") and not self.text("MODELCLASS"):
            message = f"{self.file}: no MODELFILE and MODELCLASS: bench train's preset is used"
            hint = "choose one behind --: -- --preset mlp41m"
            yield Diagnostic("session-preset", message, hint=hint, severity="note")

    def _wrong(self, key: str, problem: str, hint: str) -> SourceError:
        return wrong(self.file, self.found[key].line, problem, hint)


def is_here(host: str, machine: str) -> bool:
    """Return whether a host is this machine, by its name with or without its domain."""
    one, other = host.lower(), machine.lower()
    if one in (*_LOCAL, other):
        return True
    whole = "." in one and "." in other
    return not whole and one.partition(".")[0] == other.partition(".")[0]


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
    rank = (sys.executable,)
    given = ("-m", "gpumap.training.model_class", json.dumps(about), *network, *files)
    if ";" not in entries or not _by_mpi():
        return (*GPUMAP, "run", entries, "--quiet", "--", *rank, *given)
    start = ("mpirun", "-n", str(1 + entries.count(";")), *GPUMAP, "exec", entries, "--quiet")
    return (*start, "--", *rank, "-m", "mpi4py", *given)


def _by_mpi() -> bool:
    """Return whether several ranks are MPI's: not where PyTorch is there alone."""
    return find_spec("mpi4py") is not None or find_spec("torch") is None


def note(message: str, hint: str | None = None) -> Diagnostic:
    """Return what is worth knowing of a session."""
    return Diagnostic("session", message, hint=hint, severity="note")


def _unclear(every: Sequence[Assignment], file: str) -> Iterator[Diagnostic]:
    """Yield keys that are ignored."""
    for each in every:
        if each.key not in _KEYS:
            close = nearest(each.key, _KEYS)
            what = f"{file}, line {each.line}: {_short(each.key)} is no key of a session: ignored"
            yield note(what, f"did you mean {close[0]}?" if close else None)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
