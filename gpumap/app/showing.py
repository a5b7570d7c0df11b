"""Saved reports, shown again: one as its run did, several side by side; and topics."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.output import deliver, emit, say, show
from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.explain import KINDS, every, typed
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.explain import Kind, Topic
    from gpumap.model import Report
    from gpumap.report import Style
    from gpumap.results.several import Saved

_OF_THE_RUN = ("unused", "default-map")  # notes that help whoever can still change the map
_COLUMNS = ("row", "metric")  # of the table side by side, before the reports


def show_reports(
    program: Program,
    *,
    files: tuple[Path, ...],
    schema: bool,
    nodes: Path | None,
    accept_edited: bool,
    output: Output,
) -> None:
    """Show one report as its run did, several side by side; nodes; or the schema."""
    from gpumap.app import edits

    if [schema, bool(files), nodes is not None].count(True) != 1:
        fix = "gpumap report FILE.json, gpumap report --nodes DIR, or gpumap report --schema"
        raise QuestionError("name saved reports, a folder of nodes' reports, or the schema", fix)
    if nodes is not None:
        from gpumap.app.nodes import show_nodes

        _refuse_one(output)
        show_nodes(program, nodes, output)
    elif schema:
        from gpumap.model.json_text import text
        from gpumap.model.schema import published

        program.stdout.write(text(published()))
    else:
        one = len(files) == 1
        if not one:
            _refuse_one(output)
        reports = _read(files, edited=accept_edited)
        with edits.refused(files, reports):
            reports = [_answered(each) if edits.was_edited(each) else each for each in reports]
            if one:
                _show_one(reports[0], output, program)
            else:
                _show_all(_labelled(files, reports), output, program)


def _show_one(found: Report, output: Output, program: Program) -> None:
    """Show a report as its run did, and say on stderr what the run said."""
    from gpumap.results import spec_of

    text = found.source.text if found.source else None
    on_stdout = spec_of(found).in_sections
    left_out = (*_OF_THE_RUN, *on_stdout)
    notes = () if output.quiet else (n for n in found.notes if n.code not in left_out)
    let_pass = (problem.diagnostic for problem in found.errors if problem.exit or not output.quiet)
    emit(found, output, program)
    say(notes, program, text)
    say((error for error in let_pass if error.code not in on_stdout), program, text)


def _show_all(saved: Sequence[Saved], output: Output, program: Program) -> None:
    from gpumap.results.several import render

    deliver(partial(render, saved), output, program)


def _refuse_one(output: Output) -> None:
    """Refuse a format that is of one report, before anything is read."""
    from gpumap.results.several import FORMATS

    for format_ in (output.format, *(target.format for target in output.targets)):
        if format_ not in (*FORMATS, "auto"):
            fix = f"name one FILE, or take one of {', '.join(FORMATS)}"
            raise QuestionError(f"{format_} is a format of one report", fix)


def _read(files: Sequence[Path], *, edited: bool) -> list[Report]:
    """Return the reports.

    Raises:
        SourceError: with one diagnostic for each that cannot be read.
    """
    from gpumap.model import io

    found: list[Report] = []
    wrong: list[Diagnostic] = []
    for path in files:
        try:
            found.append(io.read(path, edited=edited))
        except SourceError as error:
            wrong += error.diagnostics
    if wrong:
        raise SourceError(tuple(wrong))
    gc.freeze()  # what was read stays: to look for garbage in it takes longer than to show it
    return found


def _answered(report: Report) -> Report:
    """Return an edited report with the answer that its rows lead to, marked as edited."""
    from gpumap.judge.phrases import LIMIT, truncated
    from gpumap.results import headline

    answer = headline(report)
    return replace(
        report, headline=answer._replace(text=truncated(f"Edited: {answer.text}", LIMIT))
    )


def _labelled(paths: Sequence[Path], reports: Sequence[Report]) -> list[Saved]:
    """Return the reports by their files' names; where these are the same, by more of the path."""
    from gpumap.results.several import Saved

    names = [path.name for path in paths]
    wished = [n if names.count(n) == 1 else str(p) for n, p in zip(names, paths, strict=True)]
    labels: list[str] = []
    for wish in wished:
        labels.append(_free(wish, (*_COLUMNS, *labels)))
    return [Saved(*each) for each in zip(labels, map(str, paths), reports, strict=True)]


def _free(wish: str, taken: Sequence[str]) -> str:
    """Return a label that nothing else has."""
    number = 2
    label = wish
    while label in taken:
        label = f"{wish} ({number})"
        number += 1
    return label


# --- the topics of a report's words

_SHOWN = 60  # characters of the user's word


def explain_words(program: Program, words: tuple[str, ...], format_: str) -> None:
    """Show the topics of all words, or the list of all topics."""
    show(partial(render, _topics(words)), format_, program)


def begun_by(begun: str) -> dict[str, str]:
    """Return the summary of each topic that begins so; of a word with several meanings one."""
    found: dict[str, str] = {}
    for topic in _every():
        found.setdefault(typed(topic), topic.summary)
    return {name: line for name, line in found.items() if name.startswith(begun)}


def _topics(words: tuple[str, ...]) -> tuple[Topic, ...]:
    """Return the topics of all words, each once, or say which words are none."""
    unknown = tuple(_unknown(word) for word in dict.fromkeys(words) if not _matches(word))
    if unknown:
        raise QuestionError(unknown)
    return tuple(dict.fromkeys(topic for word in words for topic in _matches(word)))


def _matches(word: str) -> tuple[Topic, ...]:
    from gpumap.doctor.diagnose import pages
    from gpumap.explain import named

    return named(word) or pages(word)


def _unknown(word: str) -> Diagnostic:
    from gpumap.explain import nearest

    *others, last = nearest(word) or ("",)
    near = f"{', '.join(others)} or {last}" if others else last
    fix = f"did you mean {near}?" if near else "`gpumap explain` lists all topics"
    return Diagnostic("unknown-topic", f'no topic is called "{word[:_SHOWN]}"', hint=fix)


_INDENT = "  "
_GAP = 2  # columns between a name and its line
_READABLE = 30  # columns below which a line beside its name is hard to read
# nothing to fix: a hint
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
    from gpumap.report.rich import printed
    from gpumap.report.table import Line

    found = _lines(topics, style.width)
    return printed((Line(look, ((line, ""),)) for line, look in found), style)


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
            yield f"{_INDENT}{_label(topic)}: {topic.fix}", _INDENT * 2, "ok"


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
    yield _MORE, "", "footer"


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
