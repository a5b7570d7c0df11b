"""What trackers take, read back by their own parsers and schemas: series and intervals."""

import math

import pytest
import yaml
from made_reports import ENDS, EVERY, bindings, case, figure, made, ok, scaled, skipped, wrong
from tables import table
from test_every_format import HOSTILE
from tracker_readers import READERS, TRACKERS, families
from written import ROOT, blocks, command_lines

from gpumap.escape import printable
from gpumap.model import Estimate, replace
from gpumap.model.maps import UNITS
from gpumap.report import Style, gab
from gpumap.report.trackers import Metric
from gpumap.results.shown import render

SIMULATED = " (simulated)"
BOTH = ("gab-bigger", "gab-smaller")
UNIT_WORDS = {"s": "_seconds", "B": "_bytes", "B/s": "_bytes_per_second",
              "FLOP/s": "_flop_per_second"}  # fmt: skip

PAGE = ROOT / "docs" / "reports.md"


def read(format_, report):
    return list(READERS[format_](render(format_, report, Style())))


def of_device(report):
    return replace(report, simulated=False)


def row_of(**metrics):
    return replace(ok(case()), metrics=metrics)


def only(format_, **metrics):
    report = of_device(made(measurements=(row_of(**metrics),)))
    return {each.metric: each for each in read(format_, report)}


@pytest.mark.parametrize("end", EVERY)
@pytest.mark.parametrize("format_", TRACKERS)
def test_every_report_is_read(format_, end):
    """Also one without any figure; each series has a name of its own."""
    found = read(format_, EVERY[end]())
    assert len({(each.name, each.metric) for each in found}) == len(found)


@pytest.mark.parametrize("end", [*ENDS, "copies"])
def test_each_figure_is_there_with_its_interval(end):
    report = EVERY[end]()
    expected = {
        (row.case.id + SIMULATED, name): (f.value, f.low, f.high, f.unit)
        for row in report.measurements
        for name, f in row.metrics.items()
    }
    whole = {(name, metric + UNIT_WORDS.get(unit, "")): (value, low, high)
             for (name, metric), (value, low, high, unit) in expected.items()}  # fmt: skip
    for format_ in ("bmf", "openmetrics"):
        found = {(each.name, each.metric): each[2:] for each in read(format_, report)}
        assert {key: found.get(key) for key in whole} == whole
    found = {(each.name, each.metric): each[2:] for f in BOTH for each in read(f, report)}
    directed = {key: rest[:3] for key, rest in expected.items() if key[1] not in gab._NEITHER}
    assert {key: found.get(key) for key in directed} == directed


@pytest.mark.parametrize("format_", ["gab-smaller", "bmf", "openmetrics"])
def test_an_end_that_is_infinite_and_one_that_is_not_known(format_):
    """JSON has no infinity: there the end is left out, and the figure stays."""
    half = Estimate(4e6, 2e6, math.inf, "B")
    found = only(format_, time=Estimate.without_interval(0.5, "s"), n_half=half).values()
    high = None if format_ == "bmf" else math.inf
    assert sorted(each[2:] for each in found) == [(0.5, None, None), (4e6, 2e6, high)]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_figure_that_is_infinite_is_in_openmetrics_alone(value):
    metrics = {"time": Estimate(value, value, value, "s"), "latency": figure(0.25)}
    for format_ in ("gab-smaller", "bmf"):
        assert [each.value for each in only(format_, **metrics).values()] == [0.25]
    found = only("openmetrics", **metrics)["time_seconds"]
    assert list(map(repr, found[2:])) == [repr(value)] * 3


@pytest.mark.parametrize("format_", TRACKERS)
def test_failed_and_skipped_rows_and_refused_ratios_have_no_point(format_):
    one, many = case("one"), case("many", bindings())
    refused = replace(ok(one), metrics={"speedup": Estimate.refused("1")})
    report = made("no", 1, measurements=(refused, wrong(many), skipped(case("solo"))))
    assert read(format_, report) == []


@pytest.mark.parametrize("format_", TRACKERS)
def test_what_a_script_says_is_never_a_device_s(format_):
    report = EVERY["passed"]()
    assert all(each.name.endswith(SIMULATED) for each in read(format_, report))
    real = read(format_, of_device(report))
    assert real
    assert not any("simulated" in each.name for each in real)


@pytest.mark.parametrize("format_", TRACKERS)
def test_a_hostile_name_is_a_name(format_):
    for hostile in HOSTILE:
        names = {each.name for each in read(format_, scaled((hostile, "b"), hostile))}
        assert printable(f"scale {hostile}+b") + SIMULATED in names


def test_a_series_that_would_be_there_twice_is_numbered():
    """Two names of which what can be printed is the same."""
    row = row_of(time=figure(0.5))
    twice = of_device(made(measurements=(row, replace(row, metrics={"time": figure(0.25)}))))
    for format_ in ("gab-smaller", "bmf", "openmetrics"):
        times = {e.name: e.value for e in read(format_, twice) if e.metric.startswith("time")}
        assert times == {row.case.id: 0.5, f"{row.case.id} (2)": 0.25}


def test_every_metric_has_one_direction_or_none():
    """By its unit, or by name: a new one of unit 1 belongs in this list."""
    better = {metric: gab._smaller_is_better(Metric(metric, UNITS[metric])) for metric in UNITS}
    of_unit_1 = {metric: less for metric, less in better.items() if UNITS[metric] == "1"}
    listed = {metric: way for way, metrics in table(__file__).items() for metric in metrics}
    ways = {True: "smaller", False: "bigger", None: "neither"}
    assert {metric: ways[less] for metric, less in of_unit_1.items()} == listed
    assert [metric for metric, unit in UNITS.items() if better[metric] is not (unit in ("s", "B"))
            and unit != "1"] == []  # fmt: skip


def test_gab_leaves_out_what_has_no_direction():
    names = ("ideal", "undisturbed", "speedup", "loss")
    metrics = {name: figure(2.0, "1") for name in names}
    found = [[*only(format_, **metrics)] for format_ in BOTH]
    assert found == [["speedup"], ["loss"]]


def test_the_line_for_node_exporter_writes_what_it_reads(gpumap):
    """As the page has it, into a folder that stands for the collector's: a new file is readable."""
    (line,) = (each for each in command_lines(PAGE) if "openmetrics" in each)
    collector = gpumap.folder / "textfile"
    collector.mkdir()
    typed = line.replace("/var/lib/node_exporter/textfile", "textfile")
    assert typed != line
    scripted = {"GPUMAP_FAKE": str(ROOT / "examples" / "gpus.toml"), "GPUMAP_BACKEND": "fake"}
    answer = gpumap.run(["bash", "-c", typed], **scripted)
    assert answer.code == 0, answer
    (written,) = collector.iterdir()
    assert written.suffix == ".prom"
    found = families(written.read_text(encoding="utf-8"))
    assert {"gpumap_exit_code", "gpumap_speedup", "gpumap_speedup_low"} <= found.keys()


def test_the_workflow_runs_what_the_page_shows_and_reads_what_it_writes():
    """A tool for each direction, each with a name of its own, as the action asks for."""
    (block,) = (block for block in blocks(PAGE) if block.language == "yaml")
    steps = yaml.safe_load(block.text)["jobs"]["keep"]["steps"]
    (line,) = (step["run"] for step in steps if "run" in step)
    assert line in command_lines(PAGE)
    keep = [step["with"] for step in steps if "github-action-benchmark" in step.get("uses", "")]
    tools = {"customBiggerIsBetter": "gab-bigger", "customSmallerIsBetter": "gab-smaller"}
    assert [each["tool"] for each in keep] == list(tools)
    assert len({each["name"] for each in keep}) == len(keep)
    for each in keep:
        assert f"{tools[each['tool']]}={each['output-file-path']}" in line
