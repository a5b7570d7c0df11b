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

RULES = ("BSP", "EASGD", "GOSGD")
SYNC_TYPES = ("cdd", "avg")
STRATEGIES = ("ar", "nccl32", "nccl16", "asa32", "asa16", "copper", "copper16")


_KEYS = ("RULE", "MODELFILE", "MODELCLASS", "DEVICES", "BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_OF_BSP = ("BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_SHOWN = 60  # characters of the user's text inside a message
_KEY = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_SPACED = re.compile(r"[ \t]*[A-Za-z_][A-Za-z0-9_]*[ \t]+=")
# What is in quotes as it is, and a comment, which begins where a word could
_PLAIN = re.compile(r"""'[^'\n]*'|"[^"$`\\\n]*"|(?<![^\s(])#[^\n]*""")
_SHELLS = re.compile(r"""['"$`;&|<>(){}\[\]*?~!\\]""")
_DATA = "a cfg is read as data"
_ONE = 'write one KEY=VALUE a line; a value with blanks is in quotes: KEY="..."'
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
    lines = enumerate(text.split("\n"), 1)
    for number, line in lines:
        bare = _bare(line)
        if not bare.strip(" \t"):
            continue
        match = _KEY.match(bare)
        if match is None:
            raise _no_assignment(line, bare, file, number)
        value, bare = line[match.end() : len(bare)], bare[match.end() :]
        if bare[:1] == "(":
            words = tuple(_array(value[1:], bare[1:], lines, file, number))
            yield Assignment(match[1], words, number, is_array=True)
        else:
            yield Assignment(match[1], (_word(value, bare, file, number),), number)


def _bare(line: str) -> str:
    """Return a line without its comment, and with "-" for each character of its quoted parts."""
    bare = _PLAIN.sub(lambda part: "" if part[0][0] == "#" else "-" * len(part[0]), line)
    return bare.rstrip(" \t")


def _word(value: str, bare: str, file: str, number: int) -> str:
    """Return the one word of a value."""
    _check(value, bare, file, number)
    first = re.split("[ \t]", bare)[0]
    if first != bare:
        raise _more(value[len(first) :], file, number)
    return "".join(_split(value))


def _array(
    value: str, bare: str, lines: Iterator[tuple[int, str]], file: str, began: int
) -> Iterator[str]:
    """Yield the words of an array, to its ")"."""
    number = began
    while ")" not in bare:
        _check(value, bare, file, number)
        yield from _split(value[: len(bare)])
        number, value = next(lines, (0, ""))
        if not number:
            raise wrong(file, began, "the array is never closed", 'end it with ")"')
        bare = _bare(value)
    end = bare.index(")")
    _check(value, bare[:end], file, number)
    yield from _split(value[:end])
    if bare[end + 1 :]:
        _check(value[end + 1 :], bare[end + 1 :], file, number)
        raise _more(value[end + 1 : len(bare)], file, number)


def _split(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def _check(value: str, bare: str, file: str, number: int) -> None:
    """Refuse what no value can have."""
    strange = next((c for c in value[: len(bare)] if c != "\t" and not c.isprintable()), None)
    if strange is not None:
        message = f'a value has a character that cannot be printed, "{strange}"'
        raise wrong(file, number, message, "write it anew, with plain blanks and quotes")
    if found := _SHELLS.search(bare):
        raise _shells(found[0], bare[found.end() :], file, number)


def _shells(character: str, behind: str, file: str, number: int) -> SourceError:
    """Return the error that a character is a shell's; of an open quote, what keeps it open."""
    if character in ("'", '"'):
        inner = re.search(r"[$`\\]", behind) if character in behind else None
        if inner is None:
            return wrong(file, number, "a quote is never closed", "close it in the same line")
        character = inner[0]
    message = f"{character} is for a shell to understand, and {_DATA}"
    return wrong(
        file, number, message, "write the value itself; in single quotes each character is one"
    )


def _no_assignment(line: str, bare: str, file: str, number: int) -> SourceError:
    if _SPACED.match(bare):
        hint = "write KEY=VALUE without blanks"
        return wrong(file, number, 'there are blanks before the "="', hint)
    if found := _SHELLS.match(bare.lstrip(" \t")):
        return _shells(found[0], bare.partition(found[0])[2], file, number)
    message = f'"{_short(line[: len(bare)].strip())}" is a command to a shell, and {_DATA}'
    return wrong(file, number, message, "leave only lines of KEY=VALUE")


def _more(rest: str, file: str, number: int) -> SourceError:
    return wrong(file, number, f'"{_short(rest.strip())}" follows the value, and {_DATA}', _ONE)


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
    """Return the arguments of gpumap that train a ModelClass on each name of a map.

    Args:
        entries: the map.
        about: the rule, as the fields of `Chosen`.
        network: module and class.
        files: of the epochs and of the parameters, where those are to be written.
    """
    by_mpi = ";" in entries and _by_mpi()
    launcher = ("--launcher", "mpi") if by_mpi else ()
    python = (sys.executable, *(("-m", "mpi4py") if by_mpi else ()))
    rank = (*python, "-m", "gpumap.training.model_class", json.dumps(about), *network, *files)
    return ("run", entries, *launcher, "--quiet", "--", *rank)


def _by_mpi() -> bool:
    """Return whether several ranks are MPI's: not where PyTorch is there alone."""
    return find_spec("mpi4py") is not None or find_spec("torch") is None


def note(message: str, hint: str | None = None) -> Diagnostic:
    """Return what is worth knowing of a session."""
    return Diagnostic("session", message, hint=hint, severity="note")


def _unclear(every: Sequence[Assignment], file: str) -> Iterator[Diagnostic]:
    """Yield keys that are ignored, and those that are there twice."""
    for each in every:
        if each.key not in _KEYS:
            close = nearest(each.key, _KEYS)
            what = f"{file}, line {each.line}: {_short(each.key)} is no key of a session: ignored"
            yield note(what, f"did you mean {close[0]}?" if close else None)
    for key in _KEYS:
        where = [each.line for each in every if each.key == key]
        if len(where) > 1:
            yield note(f"{file}: {key} is there {len(where)} times: line {where[-1]} counts")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
