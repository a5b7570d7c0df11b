"""A metric above what physics allows is refused, or flagged."""

from itertools import permutations

import pytest
from cases import planned_case, thin
from copy_rows import gpu, named
from reports import noisy, row
from tables import table

from gpumap import model
from gpumap.bench.allreduce import AllReduce
from gpumap.bench.chain import Chain
from gpumap.bench.dot import Dot
from gpumap.bench.selftest import SelfTest
from gpumap.bench.train import Train
from gpumap.bench.transfer import Transfer
from gpumap.engine import ceilings
from gpumap.judge import inconclusive
from gpumap.model import replace

TABLE = table(__file__)
ONE = row("one", noisy(0.02))
MANY = row("many", noisy(0.01), names=("a0", "b1"), against=ONE.case.id)
OTHER = row("one+fetch", noisy(0.02))


def rated(value, low=None):
    rate = model.Estimate.without_interval(value, "FLOP/s")
    if low is not None:
        rate = model.Estimate(value, low, value, "FLOP/s")
    case = planned_case("dot", "solo", {"size": 64}, (), model.Work())
    return model.Measurement(case, "ok", flags=("unstable",), metrics={"rate": rate})


@pytest.mark.parametrize(("origin", "value", "low", "status"), [
    *TABLE["above"],
    *((origin, 100.0 * ceilings.SLACK, 100.0 * ceilings.SLACK, "ok")
      for origin in ("computed", "reported")),
])  # fmt: skip
def test_above_a_ceiling_a_row_is_flagged_and_above_gpumaps_own_it_has_failed(
    origin, value, low, status
):
    """A table or a driver may be wrong; an interval that reaches down to a ceiling is noise.

    Below it a row stays as it is and tells its share; a probe is trusted up to its own noise.
    """
    row, limit = rated(value, low), model.Limit("rate", 100.0, "FLOP/s", "a table", origin)
    found = ceilings.with_ceiling(row, limit)
    code = "over-ceiling" if status == "failed" else None
    assert (found.status, found.reason and found.reason.code) == (status, code)
    assert found.flags == ("unstable", *["over-ceiling"] * (value == 200.0))
    assert found.metrics == ({} if code else row.metrics)
    assert found.ceiling == model.Ceiling(
        "rate", 100.0, "FLOP/s", value / 100.0, limit.source, limit.origin
    )


@pytest.mark.parametrize("limit", [
    None, *(model.Limit(*limit, "x", "computed")
            for limit in (("bandwidth", 1.0, "B/s"), ("rate", 0.0, "FLOP/s"))),
])  # fmt: skip
def test_without_a_ceiling_nothing_is_said(limit):
    assert ceilings.with_ceiling(rated(5.0), limit) == rated(5.0)


def devices(*hardware):
    return tuple(named(*(gpu(n, hardware=each) for n, each in enumerate(hardware))))


def gained(bench, case, hardware, flags=(), **ratios):
    metrics = {name: model.Estimate.without_interval(value, "1") for name, value in ratios.items()}
    work = model.Work(bytes_to_host=4 if "fetch" in case else 0)
    then = "transfer.d2h[]" if case == "bidir" else None
    planned = planned_case(bench, case, {}, devices(*hardware), work, then=then)
    return model.Measurement(planned, "ok", flags=flags, metrics=metrics)


def possible(row):
    """Return a row as the runner of its benchmark keeps it."""
    works = {of.key: of.work for of in (AllReduce, Chain, Dot, SelfTest, Train, Transfer)}
    return ceilings.possible(row, works.get(row.case.bench))


@pytest.mark.parametrize(("bench", "case", "hardware", "tops"), TABLE["tops"])
def test_a_ratio_above_its_ceiling_is_refused(bench, case, hardware, tops):
    """Never clipped, and with a flag; 5 % are the clock's."""
    for name, top in tops.items():
        within, above = (
            gained(bench, case, hardware, ("unstable",), **{name: top * ceilings.SLACK * more})
            for more in (1.0, 1 + 1e-9)
        )
        assert possible(within) is within
        found = possible(above)
        assert (found.status, found.flags) == ("ok", ("unstable", "impossible"))
        assert found.metrics[name].impossible


def test_no_end_of_an_interval_is_above_a_ceiling():
    """Whatever the noise was; and what follows from a refused ratio is refused with it."""
    row = gained("dot", "many", "xy")
    wide = {
        "speedup": model.Estimate(1.1, 0.6, 225.7, "1"),
        "efficiency": model.Estimate(0.9, 0.4, 1.8, "1"),
    }
    far = wide | {"speedup": model.Estimate(2.2, 1.0, 3.0, "1")}
    found = possible(replace(row, metrics=wide))
    assert (found.flags, found.metrics["speedup"].high) == ((), 2 * ceilings.SLACK)
    assert found.metrics["efficiency"].high == ceilings.SLACK
    assert possible(replace(row, metrics=far)).metrics["efficiency"].impossible


@pytest.mark.parametrize(("bench", "case", "hardware", "flags"), TABLE["superlinear"])
def test_split_work_may_be_superlinear(bench, case, hardware, flags):
    """The parts may fit into caches that the whole does not: the figure stays, with a flag."""
    above, within = (gained(bench, case, hardware, speedup=value) for value in (2.5, 2.1))
    assert possible(above).flags == tuple(flags)
    assert possible(above).metrics == above.metrics
    assert possible(within) is within


def test_hardware_that_is_joined_through_other_devices_is_one():
    for order in permutations(("x", "y", "z", "xy", "yz")):
        (group,) = ceilings.hardware_groups(devices(*order))
        assert sorted(binding.name for binding in group) == list("abcde")
    assert len(ceilings.hardware_groups(devices("x", "y", "z", "yx"))) == 2


def few(found):
    return replace(found, metrics=thin(found.metrics))


def test_what_is_compared_with_a_row_of_too_few_samples_has_too_few():
    """Without the time of each device alone there is no ideal either; other rows stay."""
    assert inconclusive.conclusive([ONE, MANY, OTHER]) == [ONE, MANY, OTHER]
    assert inconclusive.conclusive([few(ONE), MANY, OTHER]) == [OTHER]
    assert inconclusive.conclusive([ONE, few(MANY), OTHER]) == [ONE, OTHER]
    assert inconclusive.conclusive([few(row("solo", noisy(0.01))), ONE, MANY]) == []


@pytest.mark.parametrize(("found", "counts"), [
    (ONE, False), (few(ONE), True),
    (replace(ONE, status="skipped", metrics={}, reason=model.Reason("budget", "")), True),
    (replace(ONE, status="skipped", metrics={}, reason=model.Reason("absent", "")), False),
    (replace(ONE, metrics={**ONE.metrics, "speedup": model.Estimate.refused("1")}), True),
    (few(row("h2d", noisy(0.1), bench="transfer", metric="issue_interval")), True),
    (few(row("product", noisy(0.1), bench="control")), False),
    (few(row("h2d", noisy(0.1), bench="transfer", pattern="ladder")), False),
])  # fmt: skip
def test_a_requested_row_without_a_sure_figure_leaves_a_run_inconclusive(found, counts):
    assert inconclusive.undecided([found]) == [found] * counts
