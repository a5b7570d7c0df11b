"""Tables of rows: where backends differ, what is told apart, and how things are counted."""

import re

import pytest
from made_reports import bindings, case, copies, device, listed, made, passed, skipped

from gpumap import model
from gpumap.judge import answers
from gpumap.model import replace
from gpumap.report import Style
from gpumap.results.mapped import DEVICE_COLUMNS, device_row
from gpumap.results.rows import tables
from gpumap.results.shown import render


def driven(report, *backends):
    def by(found, backend):
        bound = tuple(
            model.Binding(b.name, replace(b.device, backend=backend)) for b in found.case.bindings
        )
        return replace(found, case=replace(found.case, bindings=bound))

    (fit,), (copy, *calls) = report.fits, report.measurements
    late = replace(calls[3], status="skipped", reason=model.Reason("budget", "late"))
    rows = [*calls[:3], late]
    return replace(
        report,
        fits=tuple(by(fit, backend) for backend in backends),
        measurements=(copy, *(by(row, backend) for backend in backends for row in rows)),
    )


def taken(name, names, n, **gains):
    values = {"time": 1.0, **gains}
    alone = {key: model.Estimate.without_interval(value, "1") for key, value in values.items()}
    known = {key: model.Estimate(value, value, value, "1") for key, value in values.items()}
    samples = model.Samples((1.0,) * n, tuple(range(n)), 1)
    metrics = alone if n < 6 else known
    return model.Measurement(case(name, bindings(*names)), "ok", samples=samples, metrics=metrics)


def on(report):
    shown = ("model", "break-even:")
    found = [t for t in tables(report, verbose=True) if t.title.startswith(shown)]
    return [tuple(row[table.columns.index("on")] for row in table.rows) for table in found]


@pytest.mark.parametrize(("n", "told"), [(5, False), (6, True)])
@pytest.mark.parametrize("few", ["solo", "many"])
def test_of_under_six_samples_nothing_is_told(few, n, told):
    """Their range is no interval: an efficiency above 1, a fetch do not follow."""
    gains = {"ideal": 1.0, "ideal_balanced": 1.5, "efficiency": 1.1}
    count = {"solo": 20, "many": 20, few: n}
    many, fetched = (
        taken("many", "", count["many"], **gains),
        taken("many+fetch", "", count["many"], fetch=2.0),
    )
    rows = taken("solo", "a", count["solo"]), many, fetched
    (table,) = tables(replace(made(), measurements=rows))
    told_ = [each for each in table.remarks if not each.startswith("few: ")]
    assert len(told_) == (2 if told else 0)


@pytest.mark.parametrize(("more", "told"), [({}, True), ({"fetch": 2.0}, False)])
def test_of_rows_that_fetch_no_efficiency_above_one_is_told(more, told):
    row = taken("many", "", 20, efficiency=1.1, **more)
    (table,) = tables(replace(made(), measurements=(row,)))
    assert any("efficiency above 1" in said for said in table.remarks) is told


@pytest.mark.parametrize(("low", "high", "slowest", "most"), [
    (-42.62e-3, 18.49e-3, 0.1, "18.5 ms"), (-42.62e-3, 18.49e-3, 4e-3, "4.00 ms"),
    (-3e-3, -1e-3, 0.1, None), (-1.0, 0.0, 0.1, None),
])  # fmt: skip
def test_a_negative_cost_is_never_printed(low, high, slowest, most):
    """A difference around zero is noise: its upper end is the most, or the iteration's."""
    times = model.Estimate(slowest, slowest, slowest, "s")
    metrics = {"fetch": model.Estimate((low + high) / 2, low, high, "s"), "time": times}
    row = replace(taken("many+fetch", "", 20), metrics=metrics)
    (table,) = tables(replace(made(), measurements=(row,)))
    (said,) = table.remarks
    assert not re.search(r"-\d", said)
    assert said.endswith(f"at most {most} per iteration" if most else "cost")


@pytest.mark.parametrize(
    ("backends", "shown"), [(("cupy", "pygpu"), ("a (cupy)", "a (pygpu)")), (("cupy",), ("a",))]
)
def test_rows_of_several_backends_are_told_apart(backends, shown):
    report = driven(copies(), *backends)
    assert on(report) == [shown] * 2
    text = render("plain", report, Style(verbose=True))
    assert f"{', '.join(f'y=x.w+b on {place}' for place in shown)}: looked no further" in text


def test_one_case_in_one_group():
    one = case("one", bindings()[:1])
    plan = model.Plan((model.Group((one,)),), {"cuda:0": 1, "host": 2})
    said = render("plain", made(measurements=(skipped(one),), plans=(plan,)), Style())
    assert "plan: 1 case in 1 group, nothing measured" in said
    assert "memory: 1 B on cuda0\nmemory: 2 B on host\n" in said


LINK = DEVICE_COLUMNS.index("link")
FULL = {"link_generation": 1, "link_width": 16, "max_link_generation": 5, "max_link_width": 16}


@pytest.mark.parametrize(("facts", "link"), [
    ({}, "-"), ({"mig": False, "max_link_width": 16}, "-"), (FULL, "PCIe 5 x16"),
    ({**FULL, "link_width": 8}, "PCIe 5 x8 of x16"),
    ({"max_link_generation": 4, "max_link_width": 8}, "PCIe 4 x8"),
])  # fmt: skip
def test_a_link_is_what_it_can_do_at_the_width_it_has(facts, link):
    """An idle link drops its generation, which says nothing; lanes that are missing say a lot."""
    assert device_row(replace(device(), facts=facts))[LINK] == link


def test_what_is_pasted_is_never_broken():
    report = listed()
    line = answers.check_line(report)
    assert len(line) > 20
    assert line in render("rich", report, Style(20)).splitlines()


def test_a_terminal_breaks_an_answer_between_words_and_a_pipe_does_not():
    report = passed()
    words = " ".join(["word"] * 30)
    report = replace(report, headline=replace(report.headline, text=words))
    assert render("plain", report, Style()).splitlines()[0] == words
    lines = render("rich", report, Style(40)).splitlines()
    first = [line for line in lines if line.startswith("word")]
    assert " ".join(first) == words
    assert max(map(len, first)) <= 40
