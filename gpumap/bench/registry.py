"""Table of the benchmarks, and what each of them says of itself in its `BenchmarkSpec`.

Selectors, completion, tables, charts, causes, topics and `run_benchmark` read it: one more
benchmark is its module, its command and one line here. A benchmark is loaded by name, when it is
needed; to load one loads no library.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap.engine.base import Recipe
    from gpumap.model import Case, Headline, Measurement, Param, Report

    Cell = Callable[[Measurement], str]

BENCHMARKS = {
    "dot": "gpumap.bench.dot:SPEC",
    "transfer": "gpumap.bench.transfer_cost:SPEC",
    "chain": "gpumap.bench.chain:SPEC",
    "allreduce": "gpumap.bench.allreduce:SPEC",
    "train": "gpumap.bench.train:SPEC",
    "selftest": "gpumap.bench.selftest:SPEC",
    "control": "gpumap.bench.control:SPEC",
}
MODEL = ("latency", "peak_bandwidth", "n_half")  # metrics of a fit


class Family(NamedTuple):
    """Rows of one shape: their cases, the keys that select among them, and their metrics."""

    cases: tuple[str, ...]
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    suffix: str = ""  # of the case, in their ids alone


class Column(NamedTuple):
    """A column that other tables do not have: of a metric, a parameter, or a text of its own."""

    name: str
    metric: str | None = None
    param: str | None = None
    cell: Cell | None = None
    verbose: bool = False  # shown with -v alone
    about: str = ""  # its line in `explain`, where no topic has its name

    def value(self, case: Case) -> str:
        """Return what a column of a parameter has of a case."""
        return str(case.params.get(self.param or "", "-"))


class BenchmarkSpec(NamedTuple):
    """Description of a benchmark; one without columns is in no table."""

    families: tuple[Family, ...] = ()  # of rows, models and break-evens
    command: tuple[str, ...] = ()  # that `run_benchmark` runs, by its last word
    recipe: type[Recipe] | None = None  # of its command, where it measures in one process
    columns: tuple[str | Column, ...] = ()  # text: one that tables have in common
    title: Callable[[Case], str] | None = None  # of the table that has a row
    # Below a table: what its columns hold.
    legend: Callable[[Sequence[Measurement]], Iterable[str]] | None = None
    aside: tuple[str, ...] = ()  # cases whose rows are in none of its tables of rows
    side_by_side: bool = False  # its sizes are columns of one table; -v has one for each size
    sizes: tuple[str, ...] = ()  # parameters that tell how much a row does
    how: tuple[str, ...] = ()  # and those that tell in which way
    products: bool = False  # counted in the title of a table, and explained by the control product
    # Of its report, by the requested rows.
    headline: Callable[[Report, Sequence[Measurement]], Headline] | None = None
    # The ids of rows, each with a metric, that its headline claims: a gate judges them; None: all.
    claims: Callable[[Sequence[Measurement]], Iterable[tuple[str, str]]] | None = None
    # The rows of a group with the causes of what is slow, beside those of their speed-up.
    explain: Callable[[Sequence[Measurement]], list[Measurement]] | None = None
    about: Mapping[str, str] = {}  # the lines of its cases in `explain`, where no topic has them


def find(key: str) -> BenchmarkSpec:
    """Return what the benchmark of a row says of itself; nothing, if there is no such benchmark."""
    if key not in BENCHMARKS:
        return BenchmarkSpec()
    found: BenchmarkSpec = resolve_name(BENCHMARKS[key])
    return found


def every() -> Iterator[BenchmarkSpec]:
    """Yield what each benchmark says of itself, in the order of the table."""
    yield from map(find, BENCHMARKS)


def commanded(word: str) -> BenchmarkSpec | None:
    """Return the benchmark whose command ends in a word."""
    return next((spec for spec in every() if spec.command[-1:] == (word,)), None)


def sizes(case: Case) -> dict[str, Param]:
    """Return the parameters that tell how much a case does."""
    return {key: case.params[key] for key in find(case.bench).sizes if key in case.params}


def size_of(case: Case) -> int:
    """Return how much a case does, in the unit of its benchmark: the largest of its sizes."""
    return max(map(int, sizes(case).values()), default=0)


def how(case: Case) -> dict[str, Param]:
    """Return the parameters that tell in which way a case does its work."""
    return {key: case.params[key] for key in find(case.bench).how if key in case.params}
