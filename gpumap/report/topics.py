"""Topics as text, in the formats of a report and as Markdown; none asked for: the list of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.explain import KINDS, every, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.explain import Kind, Topic
    from gpumap.report import Style

_INDENT = "  "
_GAP = 2  # columns between a name and its line
_READABLE = 30  # columns below which a line beside its name is hard to read
# nothing to mend: a hint, no fix
_NO_FAULT = ("metric", "column", "case", "parameter", "route", "concept")
_MORE = "`gpumap explain TOPIC` says more of each, and what to do"


def render(topics: tuple[Topic, ...], format_: str, style: Style) -> str:
    """Return the topics in one of FORMATS, or all of them where there are none."""
    return FORMATS[format_](topics, style)


def _every() -> tuple[Topic, ...]:
    from gpumap.doctor.diagnose import pages  # takes what is not there where a wheel is built

    return (*every(), *pages())


def _plain(topics: tuple[Topic, ...], style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """One line for each thing, however long: a pipe has no width."""
    return "".join(f"{line}\n" for line, _ in _lines(topics, None))


def _rich(topics: tuple[Topic, ...], style: Style) -> str:
    """The same, wrapped at the terminal's width; every text goes in as `Text`, never as markup."""
    from gpumap.report.rich import printed, styled

    found = _lines(topics, style.width)
    return printed((styled(line, look) for line, look in found), style)


def _lines(topics: tuple[Topic, ...], width: int | None) -> Iterator[tuple[str, str]]:
    """Yield each line, and how it looks where there are colours."""
    for text, indent, look in _explained(topics) if topics else _listed(width):
        yield from ((line, look) for line in _wrapped(text, width, indent))


def _explained(topics: tuple[Topic, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield texts, the indent of what does not fit into a line of theirs, and how they look."""
    for number, topic in enumerate(topics):
        if number:
            yield "", "", ""
        yield f"{topic.kind} {topic.name}: {topic.summary}", _INDENT, "bold"
        yield f"{_INDENT}{topic.text}", _INDENT, ""
        if topic.fix is not None:
            yield f"{_INDENT}{_label(topic)}: {topic.fix}", _INDENT * 2, "green"


def _listed(width: int | None) -> Iterator[tuple[str, str, str]]:
    topics = _every()
    column = len(_INDENT) + max(len(typed(topic)) for topic in topics) + _GAP
    beside = width is None or width - column >= _READABLE
    for kind, found in _grouped(topics):
        yield KINDS[kind], _INDENT, "bold"
        for topic in found:
            name = f"{_INDENT}{typed(topic)}"
            if beside:
                yield f"{name:{column}}{topic.summary}", " " * column, ""
            else:
                yield name, "", ""
                yield f"{_INDENT * 2}{topic.summary}", _INDENT * 2, ""
        yield "", "", ""
    yield _MORE, "", "dim"


def _json(topics: tuple[Topic, ...], style: Style) -> str:  # noqa: ARG001
    import json
    from dataclasses import asdict

    return json.dumps({"topics": [asdict(topic) for topic in topics or _every()]}, indent=2) + "\n"


def _markdown(topics: tuple[Topic, ...], style: Style) -> str:  # noqa: ARG001
    parts = []
    for kind, found in _grouped(topics or _every()):
        parts.append(f"## {KINDS[kind]}")
        for topic in found:
            parts += [f"### `{topic.name}`: {topic.summary}", topic.text]
            if topic.fix is not None:
                parts.append(f"{_label(topic).capitalize()}: {topic.fix}")
    return "\n\n".join(parts) + "\n"


def _label(topic: Topic) -> str:
    return "hint" if topic.kind in _NO_FAULT else "fix"


def _grouped(topics: Iterable[Topic]) -> Iterator[tuple[Kind, list[Topic]]]:
    every = list(topics)
    for kind in KINDS:
        if found := [topic for topic in every if topic.kind == kind]:
            yield kind, found


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    """Return a text as lines that fit, the later ones indented; no word is broken."""
    if width is None or len(text) <= width:
        return [text]
    from textwrap import wrap

    return wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


FORMATS = {"plain": _plain, "rich": _rich, "json": _json, "markdown": _markdown}
