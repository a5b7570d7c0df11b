"""What a text may tell strangers of a machine: no host, user, path, serial number or token.

Names are those of this machine and this user; addresses, paths and tokens are known by their form.
A path below a system folder says how a machine is set up, and stays.
"""

from __future__ import annotations

import re
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

KINDS = ("hosts", "users", "paths", "serials")  # that can be kept; a token never is
_SHORTEST = 3  # letters of a name: a shorter one is part of other words
_COMMON = {  # names that tell of no one, and that texts are full of
    *("admin", "amd", "cpu", "cuda", "cupy", "debian", "default", "docker", "fake", "gpu", "intel"),
    *("jax", "localhost", "mps", "numpy", "nvidia", "opencl", "pygpu", "pyopencl", "rocm", "root"),
    *("runner", "torch", "tpu", "ubuntu", "user", "xpu"),
}
_PUBLIC = (  # hosts of what is to be installed or read
    *("amd.com", "anaconda.org", "github.com", "github.io", "intel.com", "nvidia.com", "pypi.org"),
    *("python.org", "pytorch.org", "readthedocs.io"),
)
_SYSTEM = "bin|boot|dev|etc|lib|lib64|opt|proc|run|sbin|sys|usr|var"
_NAMED = (
    r"(?:[\w-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|accountkey"
    r"|credentials?|signature)(?:[_-]?(?:key|id|value))?|\w+[_-](?:pass|pwd|key)|sig)"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"'}]+)"
_TOKENS = (
    r"(?<=://)[^/\s@]*:[^/\s@]+(?=@)",  # of a user and a password in an address
    r"(?i)(?:(?<=bearer )|(?<=basic ))\S+",
    rf"(?i)(?<![\w-]){_NAMED}[\"']?\s*[=:]\s*{_VALUE}",
    rf"(?i)(?<![\w-])--{_NAMED}\s+{_VALUE}",
    (
        r"\b(?:gh[opsur]_|github_pat_|glpat-|glrt-|hf_|sk-|[rs]k_(?:live|test)_|xox[abps]-|pypi-|npm_"
        r"|ya29\.|AKIA|ASIA|eyJ)[\w.=/+-]{8,}"
    ),
    (  # no words, version or UUID: letters of both cases and digits, without a break
        r"(?<![\w/+-])(?=[\w+/]*[a-z])(?=[\w+/]*[A-Z])(?=[\w+/]*\d)[\w+/]{24,}={0,2}(?![\w-])"
    ),
    r"(?<![\w:-])[0-9a-f]{32,}(?![\w-])",
)
_BYTE = r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
_NO_DOMAIN = "cc|cu|gz|js|ko|md|pc|py|rs|sh|so|ts"  # what files end in
_HOSTS = (
    r"(?:(?<=://)|(?<=<token>@))[^/\s:@<]+",
    r"(?<=ADDR=)\S+|(?<=HOST=)\S+|(?<=HOSTNAME=)\S+|(?<=NODELIST=)\S+",
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:com|net|org|edu|gov|internal|lan|corp|intra)(?![\w.-])",
    (  # scipy.io and threading.local are modules
        r"(?<![\w.-])(?:(?:[\w-]{1,63}\.){2,8}|[\w-]*[\d-][\w-]*\.)"
        r"(?:io|ai|dev|cloud|local|localdomain|home)(?![\w.-])"
    ),
    rf"(?<![\w.-])(?:[\w-]{{1,63}}\.){{2,8}}(?!(?:{_NO_DOMAIN})(?![\w.-]))[a-z]{{2}}(?![\w.-])",
    # 1.2.3.4 is a version, and so is what stands behind a comparison
    rf"(?<![\w.<>])(?<![=<>~!]=)(?!\d\.){_BYTE}(?:\.{_BYTE}){{3}}(?![\w.])",
    r"(?i)(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])",  # of a network card
    r"(?i)(?<![\w:.])(?=[0-9a-f:]*\d)(?=[0-9a-f:]*::|(?:[0-9a-f]{1,4}:){5})[0-9a-f:]{4,39}(?![\w:.])",
)
_SERIAL = re.compile(
    r"(?i)(?<![a-z])((?:board[ _-]?)?serial(?:[ _-]?(?:number|no\.?))?|s/n|asset[ _-]?tag)"
    r"(\s*[:=#]?\s*)(?=\S*\d)(?!\d+\.\d)[\w/-]+"
)
_OF_SERIALS = re.compile(r"(?i)serial|asset_?tag")  # keys of a report
_OF_GPUMAP = {  # keys whose words are of closed lists
    *("backend", "code", "device", "digest", "hardware", "id", "kind", "level", "metric", "origin"),
    *("ref", "row", "severity", "started", "ended", "status", "type", "unit", "version"),
}


class Redaction:
    """Replaces what a text tells of its machine's hosts, users, paths, serials and tokens."""

    def __init__(
        self, env: Mapping[str, str], names: Collection[str] = (), keep: Collection[str] = ()
    ) -> None:
        """Take the variables and the host names of the machine.

        Args:
            env: of the process: who its user is, and where he is at home.
            names: of the host.
            keep: kinds that stay, of KINDS.
        """
        self._serials = "serials" not in keep
        forms = {
            "tokens": _TOKENS,
            "paths": _paths(env),
            "users": _users(env),
            "hosts": (*_words(names), *_HOSTS),
        }
        kept = {kind: rules for kind, rules in forms.items() if kind not in keep}
        self._rules = [(re.compile(r), f"<{kind[:-1]}>") for kind in kept for r in kept[kind]]

    def text(self, text: str) -> str:
        """Return a text without them."""
        for rule, word in self._rules:
            text = rule.sub(partial(_hidden, word), text)
        return _SERIAL.sub(r"\1\2<serial>", text) if self._serials else text

    def tree(self, tree: Any) -> Any:
        """Return a tree of a report in which every text is without them."""
        if isinstance(tree, dict):
            known = {*_OF_GPUMAP, "name"} if "usable" in tree else _OF_GPUMAP  # of a backend
            return {
                key: item if key in known else self._item(key, item) for key, item in tree.items()
            }
        if isinstance(tree, list):
            return [self.tree(item) for item in tree]
        return self.text(tree) if isinstance(tree, str) else tree

    def _item(self, key: str, item: Any) -> Any:
        if self._serials and _OF_SERIALS.search(key) and isinstance(item, str | int):
            return "<serial>"
        return self.tree(item)


def _hidden(word: str, found: re.Match[str]) -> str:
    """Return what is shown in place of a match: a host that everyone knows stays."""
    public = word == "<host>" and found[0].endswith(_PUBLIC)
    return found[0] if public else word


def host_names(env: Mapping[str, str]) -> set[str]:
    """Return the names of this machine: its own, and that of the variable."""
    names = {socket.gethostname(), env.get("HOSTNAME", "")}
    return names | {name.partition(".")[0] for name in names}


def _paths(env: Mapping[str, str]) -> Iterator[str]:
    rest = r"(?:/[^\s:;,\"'`)\]}|]*)*"
    home = env.get("HOME", "").rstrip("/")
    if home:
        yield rf"(?<![\w.]){re.escape(home)}(?![^\s/:;,]){rest}"
    yield rf"(?<![\w.])~[\w.-]*{rest[:-1]}+"
    yield rf"(?<![\w./~-])/(?!/|(?:{_SYSTEM})(?![\w.-]))[\w.@%+-]+{rest[:-1]}+"


def _users(env: Mapping[str, str]) -> Iterator[str]:
    yield r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    yield from _words({env.get(key, "") for key in ("USER", "LOGNAME", "SUDO_USER")})


def _words(names: Collection[str]) -> Iterator[str]:
    """Yield what finds these names where they are words, the longest first."""
    told = (name for name in names if len(name) >= _SHORTEST and name.lower() not in _COMMON)
    words = sorted(told, key=len, reverse=True)
    if words:
        yield rf"(?i)(?<![^\W_])(?:{'|'.join(map(re.escape, words))})(?![^\W\d_])"
