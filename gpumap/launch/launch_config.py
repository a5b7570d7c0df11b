"""Theano-MPI's session file: what `tmlauncher -cfg=launch_session.cfg` has executed, as data.

    RULE               BSP, EASGD or GOSGD, in whatever case
    MODELFILE          the module of the network; comes with
    MODELCLASS         its class
    DEVICES            cuda0,cuda1 or, by host, ("node0:cuda0" "node1:cuda0,cuda1")
    BSP_SYNC_TYPE      cdd (of gradients) or avg (of parameters)
    BSP_EXCH_STRATEGY  ar, nccl32, nccl16, asa32, asa16, copper or copper16

A device may be whatever a map may have. Of a key that is there twice the last one counts, and an
empty value is none: as in a shell.

The file itself has assignments as a shell script has them; nothing is expanded or executed:

    file       = { [ assignment ] [ comment ] newline }       blanks on either side are dropped
    assignment = [ "export" ] key "=" ( word | array )        no blanks around the "="
    array      = "(" { word | comment | blank | newline } ")"
    word       = { bare | "'" literal "'" | '"' quoted '"' }  within a line
    key        = letter or "_" { letter | digit | "_" }
    bare       = printable { printable }                      no blank, quote, or sign of a shell
    literal    = { printable }                                no "'"
    quoted     = { printable }                                no '"', "$", "`", backslash
    comment    = "#" { any }                                  where a word could begin

Everything else is an error: what only a shell could understand must not be taken for a value.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.errors import Diagnostic, SourceError
from gpumap.model import replace
from gpumap.text import fix, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_SHOWN = 60  # characters of the user's text inside a message
_BARE = r"""[^\s'"$`;&|<>(){}\[\]*?~!\\]+"""
_LITERAL, _INNER = r"'([^'\n]*)'", r'"([^"$`\\\n]*)"'
_PART = re.compile(f"({_BARE})|{_LITERAL}|{_INNER}")
_KEY = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_SPACED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[ \t]+=")
_BLANKS = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\n]*")
_QUOTED = re.compile(
    r"[\"$`\\\n]|\Z"
)  # what ends what stands in double quotes, or must not be there
_DATA = "a cfg is read as data"
_ONE = 'write one KEY=VALUE a line; a value with blanks is in quotes: KEY="..."'


@dataclass(frozen=True, slots=True)
class Assignment:
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
    return _Reader(text, file).every()


class _Reader:
    """A place in the text, and the rules of the grammar."""

    def __init__(self, text: str, file: str) -> None:
        text = text.removeprefix("\N{BYTE ORDER MARK}")
        self._text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._file = file
        self._at = 0
        self._line = 1

    def every(self) -> Iterator[Assignment]:
        """Rule: file."""
        while self._next():
            yield self._assignment()
            self._skip()
            if self._here not in ("", "\n"):
                raise self._more()

    def _next(self) -> bool:
        """Go to the next line that has something; return whether there is one."""
        self._skip()
        while self._here == "\n":
            self._at += 1
            self._line += 1
            self._skip()
        return self._here != ""

    def _assignment(self) -> Assignment:
        """Rule: assignment."""
        match = _KEY.match(self._text, self._at)
        if match is None:
            raise self._no_assignment()
        line = self._line
        self._at = match.end()
        if self._here == "(":
            return Assignment(match[1], tuple(self._array()), line, is_array=True)
        return Assignment(match[1], (self._word(),), line)

    def _array(self) -> Iterator[str]:
        """Rule: array."""
        began = self._line
        self._at += 1
        while self._next() and self._here != ")":
            yield self._word(end=")")
        if not self._here:
            self._line = began
            raise self._wrong("the array is never closed", 'end it with ")"')
        self._at += 1
        if self._here not in ("", " ", "\t", "\n"):
            raise self._more()

    def _word(self, end: str = "") -> str:
        """Rule: word."""
        parts = []
        while match := _PART.match(self._text, self._at):
            parts.append(match[match.lastindex or 0])
            self._at = match.end()
        word = "".join(parts)
        if strange := next((c for c in word if not c.isprintable()), None):
            raise self._unprintable(strange)
        if self._here not in ("", " ", "\t", "\n", *end):
            raise self._shell()
        return word

    @property
    def _here(self) -> str:
        """Return the character at this place; none at the end."""
        return self._text[self._at : self._at + 1]

    def _skip(self) -> None:
        """Go past blanks, and a comment."""
        for pattern in (_BLANKS, _COMMENT):
            if match := pattern.match(self._text, self._at):
                self._at = match.end()

    # --- what is wrong

    def _no_assignment(self) -> SourceError:
        if _SPACED.match(self._text, self._at):
            return self._wrong('there are blanks before the "="', "write KEY=VALUE without blanks")
        if not _PART.match(self._text, self._at):
            return self._shell()
        message = f'"{self._rest()}" is a command to a shell, and {_DATA}'
        return self._wrong(message, "leave only lines of KEY=VALUE")

    def _more(self) -> SourceError:
        if not _PART.match(self._text, self._at):
            return self._shell()
        return self._wrong(f'"{self._rest()}" follows the value, and {_DATA}', _ONE)

    def _shell(self) -> SourceError:
        """Name the character that no value can have here."""
        character = self._here
        if character in ("'", '"'):
            found = _QUOTED.search(self._text, self._at + 1) if character == '"' else None
            character = found[0] if found else ""
            if character in ("", "\n"):
                return self._wrong("a quote is never closed", "close it in the same line")
        if not character.isprintable():
            return self._unprintable(character)
        message = f"{character} is for a shell to understand, and {_DATA}"
        fix = "write the value itself; in single quotes each character is one"
        return self._wrong(message, fix)

    def _unprintable(self, character: str) -> SourceError:
        message = f'a value has a character that cannot be printed, "{character}"'
        return self._wrong(message, "write it anew, with plain blanks and quotes")

    def _rest(self) -> str:
        stop = self._text.find("\n", self._at)
        rest = self._text[self._at : stop if stop >= 0 else None].rstrip()
        return rest if len(rest) <= _SHOWN else f"{rest[: _SHOWN - 3]}..."

    def _wrong(self, problem: str, hint: str) -> SourceError:
        return wrong(self._file, self._line, problem, hint)


def wrong(file: str, line: int, problem: str, hint: str) -> SourceError:
    """Return the error of a line."""
    return SourceError(f"{file}, line {line}: {problem}", hint)


RULES = ("BSP", "EASGD", "GOSGD")
SYNC_TYPES = ("cdd", "avg")
STRATEGIES = ("ar", "nccl32", "nccl16", "asa32", "asa16", "copper", "copper16")

PRESET = "session-preset"  # the code of the note that bench train's own network is used

_KEYS = ("RULE", "MODELFILE", "MODELCLASS", "DEVICES", "BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_OF_BSP = ("BSP_SYNC_TYPE", "BSP_EXCH_STRATEGY")
_EXAMPLE = 'write DEVICES=cuda0,cuda1, or by host DEVICES=("node0:cuda0" "node1:cuda0,cuda1")'
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_DEVICE = re.compile(
    r"(?:cuda|opencl|cpu)[0-9]*|cuda@.*"
)  # before a ":": part of a device, no host
_LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Node:
    """The devices of a host, in their order."""

    host: str
    devices: tuple[str, ...]
    here: bool  # it is this machine

    @property
    def map(self) -> str:
        """Return them as a map."""
        return ";".join(f"dev{number}->{device}" for number, device in enumerate(self.devices))


@dataclass(frozen=True, slots=True)
class Session:
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
        notes += [_note(f"{file}: {key} is of BSP, and ignored with {rule}") for key in unused]
    return Session(
        rule,
        *given.model(),
        given.nodes(machine),
        given.choice("BSP_SYNC_TYPE", SYNC_TYPES) if bsp else None,
        given.choice("BSP_EXCH_STRATEGY", STRATEGIES) if bsp else None,
        tuple(notes),
    )


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
    several = ";" in entries
    launcher = ("--launcher", "mpi") if several else ()
    python = (sys.executable, *(("-m", "mpi4py") if several else ()))
    rank = (*python, "-m", "gpumap.training.model_class", json.dumps(about), *network, *files)
    return ("run", entries, *launcher, "--quiet", "--", *rank)


@dataclass(frozen=True, slots=True)
class _Given:
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
            fix = f'devices are separated by ",": {_EXAMPLE}'
            raise self._wrong("DEVICES", f'"{_short(rest)}" are no devices', fix)
        return host, [device.strip() for device in rest.split(",")]

    def missing(self, rule: str | None) -> Iterator[Diagnostic]:
        """Yield what the file leaves to bench train, and what is otherwise there."""
        if rule is None:
            yield _note(f"{self.file}: no RULE: bench train's own is used, bsp")
        if rule == "EASGD":
            yield _note(
                "with EASGD the first device trains too; Theano-MPI's only serves the others"
            )
        if not self.text("MODELFILE") and not self.text("MODELCLASS"):
            message = "no MODELFILE and MODELCLASS: bench train's preset is used"
            hint = "choose one behind --: -- --preset mlp41m"
            yield replace(_note(f"{self.file}: {message}", hint), code=PRESET)

    def _wrong(self, key: str, problem: str, hint: str) -> SourceError:
        return wrong(self.file, self.found[key].line, problem, hint)


def is_here(host: str, machine: str) -> bool:
    """Return whether a host is this machine, by its name with or without its domain."""
    one, other = host.lower(), machine.lower()
    if one in (*_LOCAL, other):
        return True
    whole = "." in one and "." in other
    return not whole and one.partition(".")[0] == other.partition(".")[0]


def _unclear(every: Iterable[Assignment], file: str) -> Iterator[Diagnostic]:
    """Yield keys that are ignored, and those that are there twice."""
    lines: dict[str, list[int]] = {}
    for each in every:
        lines.setdefault(each.key, []).append(each.line)
        if each.key not in _KEYS:
            close = nearest(each.key, _KEYS)
            what = f"{file}, line {each.line}: {_short(each.key)} is no key of a session: ignored"
            yield _note(what, f"did you mean {close[0]}?" if close else None)

    for key in _KEYS:
        if len(where := lines.get(key, [])) > 1:
            yield _note(f"{file}: {key} is there {len(where)} times: line {where[-1]} counts")


def _note(message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("session", message, hint=hint, severity="note")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
