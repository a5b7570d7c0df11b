"""A run holds its budget: what matters most is measured well, the rest is left out by name."""

import pytest
from cases import planned_case
from worlds import SETTINGS, controlled_on, copies_on, dot_on, gpu, hooking, rows_on, world

from gpumap.bench.dot import Dot, Params
from gpumap.engine.sampling import Series
from gpumap.engine.stopping import FEWEST, deadlines, needed, units
from gpumap.model import Group, Work, replace

SIZE = 64
PARAMS = Params((SIZE,))
HARD = replace(SETTINGS, precision=-1.0, blocks=100_000)  # only the budget ends it


def measured(budget, *scripts, check=0.0, params=PARAMS, controls=True, insists=False):
    """Return the rows, and when they were done; to verify a product takes `check` seconds."""
    here = world(*scripts, light=True)
    checked = hooking(Dot, "check", lambda _, case: here.clock.sleep(check * case.work.products))
    benchmark = dot_on(here, params, checked)
    if insists:
        first, second = benchmark.plan.groups
        second = replace(second, order=((3,),), insists=True)
        benchmark.plan = replace(benchmark.plan, groups=(first, second))
    if controls:
        benchmark = controlled_on(here, benchmark)
    rows = rows_on(here, benchmark, replace(HARD, budget=budget))
    assert [case.id for case in benchmark.plan.cases] == [row.case.id for row in rows]
    return rows, here.clock.now()


def kept(rows):
    return list(dict.fromkeys(row.case.name for row in rows if row.status == "ok"))


def controlled(params=PARAMS):
    """Return the units of products on two devices, with their controls."""
    here = world(gpu(0), gpu(1))
    benchmark = controlled_on(here, dot_on(here, params))
    (group,) = benchmark.plan.groups
    return [[f"{case.name} {'+'.join(case.names)}" for case in unit] for unit in units(group)]


def test_a_sweep_has_twice_the_time_of_a_size():
    """And what the sizes leave of theirs: a model wants many sizes, each in every block."""
    blocks = []
    for extra in (False, True):
        here = world(gpu(0))
        benchmark = dot_on(here, Params((SIZE, SIZE // 2)))
        first, second = benchmark.plan.groups
        groups = (first, replace(second, extra=extra))
        benchmark.plan = replace(benchmark.plan, groups=groups)
        rows = rows_on(here, benchmark, replace(HARD, budget=3.0))
        blocks.append([
            next(row.stop.n for row in rows if row.case in group.cases) for group in groups
        ])  # fmt: skip
    plain, swept = blocks
    gained = [more / fewer for more, fewer in zip(swept, plain, strict=True)]
    assert gained == pytest.approx([(1 / 3) / (1 / 2), (2 / 3) / (1 / 2)], rel=0.1)


def test_a_case_needs_its_reference_and_its_controls():
    alone, both = ["product a"], ["product a", "product b"]
    assert controlled() == [
        ["one a", *alone], ["one a", "many a+b", *both], ["solo a", "solo b", *both],
        ["one+fetch a", "many+fetch a+b", *both],
        ["one+fetch a", "many+fetch+threads a+b", *both], ["product a+b"],
    ]  # fmt: skip
    # a control that no case needs comes last, and what counts beside one that is there
    assert controlled(replace(PARAMS, cases=("one",))) == [["one a", "product a"], ["product b"]]
    # a group that says nothing of its cases has them in the order of the plan
    cases = tuple(planned_case("x", name, {}, (), Work()) for name in "abcd")
    plain = [[case.name for case in unit] for unit in units(Group(cases))]
    ordered = [[case.name for case in unit] for unit in units(Group(cases, order=((3,), (1, 2))))]
    assert plain == [["a"], ["b"], ["c"], ["d"]]
    assert ordered == [["d"], ["b", "c"], ["a"]]


def test_what_is_needed_is_for_the_fewest_blocks_of_all():
    series = [Series(None, sample_seconds=s, checking=s / 4) for s in (2.0, 1.0)]
    assert needed(series) == (1 + FEWEST) * 3.0 + 0.75


IN_ORDER = ["one", "many", "solo", "one+fetch", "many+fetch", "many+fetch+threads"]


@pytest.mark.parametrize("check", [0.0, 0.02, 0.25])
@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 8.0, 20.0])
def test_the_budget_holds(budget, check):
    """However long verifying takes: the rest is left out by name, what is kept has its blocks."""
    rows, spent = measured(budget, gpu(0), gpu(1), check=check)
    names = kept(rows)
    assert {"ok", "skipped"} >= {row.status for row in rows}
    assert {row.case.name for row in rows} == {*IN_ORDER, "product"}
    for row in rows:
        if row.status == "skipped":
            assert (row.metrics, row.samples, row.check, row.stop) == ({}, None, None, None)
            assert row.reason.code == "budget"
    order = [name for name in IN_ORDER if name in names]
    assert order == IN_ORDER[: len(order)]
    assert order == IN_ORDER or budget < (20.0 if check > 0.05 else 8.0)
    controls = sum(row.case.name == "product" and row.status == "ok" for row in rows)
    assert controls in ((2, 3) if "many" in names else (1,))
    assert controls == 3 or order != IN_ORDER or budget < 20.0  # that of both comes last
    if names != ["one", "product"]:
        assert spent <= 1.15 * budget
        assert all(row.stop.n >= FEWEST for row in rows if row.status == "ok")


def test_the_most_important_case_is_measured_however_long_it_takes():
    """And wrong data are told."""
    rows, spent = measured(0.001, gpu(0), gpu(1), check=10.0)
    assert kept(rows) == ["one", "product"]
    assert [row.stop.n for row in rows if row.status == "ok"] == [1, 1]
    assert spent < 4 * 21.0  # two looks at two products, and no third
    rows, _ = measured(0.001, gpu(0, fault="wrong-product"), gpu(1), controls=False)
    status = {row.case.name: row.status for row in rows if row.case.names[0] == "a"}
    assert status["one"] == "failed"
    assert "ok" in {row.status for row in rows}  # what can be measured of the rest


def test_what_was_asked_for_is_measured_before_the_model():
    """The sweep has what is left: of the sizes that were asked for nothing is left out for it."""
    here = world(gpu(0), gpu(1))
    benchmark = copies_on(here, 400, 4000, cases=("h2d", "d2h", "d2d"), sweep=(64, 512, 4096))
    rows = [r for r in rows_on(here, benchmark, replace(HARD, budget=2.0)) if r.case.skip is None]
    asked = [row for row in rows if row.case.params["pattern"] != "ladder"]
    assert {("ok", True)} == {(row.status, row.stop.n >= FEWEST) for row in asked}
    assert "budget" in {row.reason.code for row in rows if row.status == "skipped"}
    assert here.clock.now() <= 1.15 * 2.0


def test_what_compiles_at_first_leaves_no_later_case_out():
    """What a case is expected to take is of calls after the first, which compiles."""
    params = replace(PARAMS, sizes=(32, 64), cases=("one",))
    rows, spent = measured(4.0, gpu(0, slow_first=0.5), params=params, controls=False)
    assert {row.status for row in rows} == {"ok"}
    assert spent <= 1.15 * 4.0


def test_what_takes_longest_to_prove_has_most_of_the_time():
    """One part for a size, two for a sweep, three for a group that is measured in any case."""
    groups = (Group(()), Group((), extra=True), Group((), insists=True))
    assert deadlines(groups, 1.0, 7.0) == (2.0, 2.5)
    assert deadlines(groups[1:], 2.0, 7.0) == (4.0, 4.0)
    assert deadlines(groups[2:], 4.0, 7.0) == (7.0, 7.0)


def test_a_group_that_insists_is_measured():
    params = replace(PARAMS, sizes=(64, 32))
    more = {"check": 1.0, "params": params, "controls": False, "insists": True}
    rows, _ = measured(0.01, gpu(0), gpu(1), **more)
    every = [(row.case.name, row.case.params["size"], row.status) for row in rows]
    assert [size for name, size, _ in every if name == "many"] == [64, 32]
    assert {each for each in every if each[2] == "ok"} == {
        ("one", 64, "ok"), ("one", 32, "ok"), ("many", 32, "ok"),
    }  # fmt: skip
