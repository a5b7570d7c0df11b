"""One more benchmark is a module and a line of the registry: nothing else is edited."""

import csv
import io
import os
import sys

import click
import pytest
from flat_report import loads
from made_reports import bindings, made, ok
from mpi_jobs import run
from tables import table
from written import ROOT

from gpumap.app.benchmark import measure
from gpumap.bench import registry
from gpumap.bench.registry import BenchmarkSpec, Column, Family
from gpumap.commands.options import benchmark_options, setting
from gpumap.engine.base import Benchmark, Recipe
from gpumap.engine.estimates import time_of
from gpumap.engine.products import Pair, Product, multiplied
from gpumap.model import Case, Group, Plan, Work
from gpumap.report import FORMATS, Style
from gpumap.results.shown import render


class Toy(Benchmark):
    key = "toy"

    def __init__(self, devices, plan):
        self.plan, self._sessions = plan, devices.sessions

    def iteration(self, case):
        (name,) = case.names
        product = Product(name, self._sessions[name], Pair((1, 0), case.params["words"], "float32"))
        return multiplied([product], None, fetched=False)

    def metrics(self, group, samples, confidence):  # noqa: ARG002 - the contract's
        return {id_: {"time": time_of(found, confidence)} for id_, found in samples.items()}


class ToyRecipe(Recipe):
    def __init__(self, settings, *, words):
        super().__init__(settings)
        self._params = {"words": words, "tone": "low"}

    def plan(self, bindings):
        cases = (Case("toy", "ping", self._params, (binding,), Work()) for binding in bindings)
        return Plan((Group(tuple(cases)),), {}, 0)

    def benchmark(self, devices):
        return Toy(devices, self.plan(devices.bindings))


@click.command()
@setting("--words", type=int, default=4)
@benchmark_options(1.0, "toy")
def toy(request, **options):
    """Measure a toy."""
    measure("toy", request, options)


CASES = {"ping": "a word there", "pong": "a word there and back"}
SPEC = BenchmarkSpec(
    (Family(tuple(CASES), ("words", "tone"), ("time", "speedup")),),
    command=("bench", "toy"),
    recipe=ToyRecipe,
    columns=(
        "case", "on", "time",
        Column("gain", metric="speedup", about="how many times as fast as one device"),
        Column("tone", param="tone"),
        Column("loud", cell=lambda row: str(row.case.params["tone"]).upper()), "trust", "status",
    ),
    title=lambda case: f"toy of {case.params['words']} words",
    legend=lambda rows: [f"gain: of {len(rows)} rows"],
    sizes=("words",),
    how=("tone",),
    about=CASES,
)  # fmt: skip
TOY = "toy.ping[backend=fake,names=a+b,tone=low,words=4]"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry.BENCHMARKS, "toy", "test_toy_benchmark:SPEC")


def rendered(format_):
    params = {"words": 4, "tone": "low"}
    cases = (Case("toy", name, params, bindings(), Work()) for name in CASES)
    rows = [ok(case, speedup=1.5) for case in cases]
    return render(format_, made(measurements=rows), Style(width=200, verbose=True))


def test_its_rows_have_a_table_of_its_own():
    """Others tell of what was judged alone; JSON and CSV have its keys."""
    text = rendered("plain")
    assert "toy of 4 words, fake" in text
    heading = next(line for line in text.splitlines() if line.split()[:1] == ["case"])
    assert heading.split() == ["case", "on", "time", "gain", "tone", "loud", "trust", "status"]
    assert "LOW" in text
    assert "gain: of 2 rows" in text
    shown = {format_: rendered(format_) for format_ in sorted({*FORMATS} - {"junit", "github"})}
    assert [format_ for format_, text in shown.items() if "ping" not in text] == []
    data = loads(shown["json"])["measurements"][0]
    lines = csv.DictReader(io.StringIO(shown["csv"]))
    line = next(line for line in lines if line["id"] == TOY)
    assert (data["id"], data["bench"], data["params"]["tone"]) == (TOY, "toy", "low")
    assert (line["bench"], line["words"], line["tone"]) == ("toy", "4", "low")


def test_it_is_measured_by_its_recipe(tmp_path):
    """Its command has the options of all, and its devices the control product beside it."""
    scripted = str(ROOT / "examples" / "gpus.toml")
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "GPUMAP_FAKE": scripted}
    words = ["bench", "toy", "a->cuda0;b->cuda1", "--words", "8", "--backend", "fake", "--quiet"]
    words += ["--limit", "toy.ping.time<=1s", "--format", "json"]
    done = run([sys.executable, "-c", table(__file__)["run"], *words], tmp_path, **env)
    assert (done.returncode, done.stderr) == (0, "")
    report = loads(done.stdout)
    own = [row for row in report["measurements"] if row["bench"] == "toy"]
    assert [row["id"] for row in own] == [
        f"toy.ping[backend=fake,names={name},tone=low,words=8]" for name in "ab"
    ]
    assert all(row["metrics"]["time"]["value"] > 0.0 for row in own)
    assert {row["bench"] for row in report["measurements"]} == {"toy", "control"}
    assert [verdict["verdict"] for verdict in report["verdicts"]] == ["pass", "pass"]
