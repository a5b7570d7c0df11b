"""What every page has: one file that asks nobody for anything.

Its policy forbids what it does not bring: no request, no script but its own, known by its hash, no
form and no frame. It is XML too, so that a test can hold that each element is closed.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from gpumap.report.page.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def document(title: str, body: Iterable[str]) -> str:
    """Return a whole page of these lines, in ASCII: the same in whatever encoding it is written."""
    text = "".join(f"{line}\n" for line in _lines(title, body))
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _lines(title: str, body: Iterable[str]) -> Iterator[str]:
    script, style = _part("sort.js"), _part("page.css")
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8" />'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}" />'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1" />'
    yield '<meta name="color-scheme" content="light dark" />'
    yield '<meta name="referrer" content="no-referrer" />'
    yield f"<title>{shown(title)}</title>"
    yield '<link rel="icon" href="data:," />'  # else a browser asks the page's server for one
    yield f"<style>{style}</style>"
    yield "</head>"
    yield "<body>"
    yield from body
    yield f"<script>{script}</script>"
    yield "</body>"
    yield "</html>"


def _policy(script: str) -> str:
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


@cache
def _part(name: str) -> str:
    """Return a file beside this one."""
    return files("gpumap.report.page").joinpath(name).read_text(encoding="utf-8")
