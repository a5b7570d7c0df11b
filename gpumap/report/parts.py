"""What reports are made of, whatever command they are of: renderers know these parts alone."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpumap.errors import Diagnostic
    from gpumap.model import Estimate, Headline, Report
    from gpumap.report.charts import Chart
    from gpumap.report.table import Table

State = Literal["passed", "failed", "error", "skipped"]
Name = Literal["aside", "map", "plan", "diagnoses", "devices", "tables", "verdicts", "method"]


class Text(NamedTuple):
    """Lines of text that belong together.

    Attributes:
        lines: What there is to say, a line each.
        title: What it is about; without one the lines are paragraphs.
        look: A word that colours stand for.
        headed: The title stands above the lines in plain text, too.
        gap: A blank line stands before it.
        filled: In a pipe too, lines are broken between words.
        pasted: No line is ever broken: it is there to be pasted.
    """

    lines: tuple[str, ...]
    title: str = ""
    look: str = ""
    headed: bool = False
    gap: bool = False
    filled: bool = False
    pasted: bool = False


class Section(NamedTuple):
    """Parts of a report that have one place on a page.

    Attributes:
        name: Which place: `aside` is what a page shows elsewhere, `method` how it was measured.
        parts: What it shows, in order.
    """

    name: Name
    parts: tuple[Text | Table, ...]


class Outcome(NamedTuple):
    """How a part of a report ended.

    Attributes:
        state: What a test that it is has.
        word: The report's own word for it.
        text: What there is to say of it.
    """

    state: State
    word: str = ""
    text: str = ""


class Record(NamedTuple):
    """What was measured, found or judged: a line of CSV and a point of a tracker for each figure.

    `kind` is one of these words:

    headline       the answer: its `status` is the level, its `reason` the text; the test of the run
    warning        what the figures must not be read without; the `reason` says it
    name           a name of a map that is true
    measurement    a row of the report; without a figure it has one line, that says why
    fit            a model of copies; `status` is "fits" or "does not fit"
    forecast       what so many devices would give by the algorithm in `case`: computed
    published      a cell of a table, with what follows from it; `flags` are its labels
    ran            what a program did by the context in `id`: events of one sort at one place
    busy           how long a device of that context worked; its `share` is of the trace's time
    use            how busy a device was, seen from outside; `status` is whether it was used
    scale          a program on the names of the map in `names`; `n` is how many runs it had
    diagnosis      whether the device of a name is used; then each cause as its `reason`
    fitness        an item of preflight, in `case`: `status` is what it says, `reason` what was seen
    verdict        `status` is the verdict, `reason` the question, the figure what was judged
    error          `status` is the exit code that it stands for, `reason` its code and message

    Attributes:
        kind: What it is.
        id: Of what was measured or judged.
        cells: Of CSV, by their columns; `params` by theirs.
        figures: By their metrics.
        outcome: How it ended, as a test of JUnit; None: it is none.
        name: Of the test, where that is not the id.
        about: Names and texts of what else is known of it.
        hint: What to do about it.
    """

    kind: str
    id: str | None = None
    cells: Mapping[str, Any] = MappingProxyType({})
    figures: Mapping[str, Estimate] = MappingProxyType({})
    outcome: Outcome | None = None
    name: str = ""
    about: tuple[tuple[str, str], ...] = ()
    hint: str | None = None


class Shown(NamedTuple):
    """A report as its formats show it; what only some of them need is made when they call for it.

    Attributes:
        report: It.
        title: The command as it was called, in short.
        headline: The answer.
        outcome: How the run ended.
        in_sections: Codes of the notes and errors that sections have too.
        sections: Yields what is shown; with True all of it.
        charts: Yields what is drawn.
        records: Yields what was measured, found and judged.
    """

    report: Report
    title: str
    headline: Headline
    outcome: Outcome
    in_sections: tuple[str, ...]
    sections: Callable[[bool], Iterator[Section]]
    charts: Callable[[], Iterable[Chart]]
    records: Callable[[], Iterator[Record]]

    def errors(self) -> list[Diagnostic]:
        """Return what is wrong, without what sections have."""
        wrong = [problem.diagnostic for problem in self.report.errors if problem.exit != 0]
        return [found for found in wrong if found.code not in self.in_sections]

    def told(self) -> list[Diagnostic]:
        """Return what was let pass, and the notes."""
        passed = [problem.diagnostic for problem in self.report.errors if problem.exit == 0]
        return [*passed, *self.report.notes]


def unique(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, a number after each that was there before: readers join runs by them."""
    times: dict[str, int] = {}
    for name in names:
        found = name
        while found in times:
            times[name] += 1
            found = f"{name} ({times[name]})"
        times[found] = 1
        yield found


_TONES = {
    "good": ("ok", "fit", "pass", "improvement", "used"),
    "unclear": ("inconclusive", "cannot-tell", "skipped", "partly", "noisy", "few", "unstable"),
    "bad": ("failed", "fail", "unfit", "regression", "missing", "new", "not used", "no", "absent",
            "wrong-data", "timeout", "interrupted", "error", "internal"),
}  # fmt: skip
_TONE = {word: tone for tone, words in _TONES.items() for word in words}


def tone(text: str) -> str:
    """Return what a word that says how something ended is: good, unclear, bad, or none of these."""
    return _TONE.get(text.lstrip("!~? "), "")
