"""The rules of the script on figures find what breaks them, and nothing else."""

import pytest
from saved_reports import few, written

from benchmarks.figures import wrong


def edited(metric, figure, row=3):
    """Return the report of products with another figure in the row of `many`."""
    tree = written("dot").tree
    tree["measurements"][row]["metrics"][metric] |= figure
    return tree


@pytest.mark.parametrize("name", ["dot", "sizes", "copies", "lost", "real"])
def test_reports_keep_the_rules(name):
    assert list(wrong(written(name).tree)) == []


@pytest.mark.parametrize(
    ("metric", "value"),
    [("speedup", 2.11), ("ideal", 2.88), ("efficiency", 1.06), ("overlap", 1.01)],
)
def test_a_ratio_above_its_ceiling_is_found(metric, value):
    assert len(list(wrong(edited(metric, {"value": value})))) == 1


def test_what_is_said_of_few_samples_is_found():
    tree = few(written("dot").tree, 5)
    row = tree["measurements"][3]
    row["metrics"]["speedup"] |= {"low": 0.0, "high": 2.0}
    row["explanation"] = {"cause": "cpu-contention"}
    assert len(list(wrong(tree))) == 2
    assert len(list(wrong(tree | {"status": "ok"}))) == 3
