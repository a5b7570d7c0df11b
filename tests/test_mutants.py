"""The table of planted faults fits the tree: each can be planted, and names tests that exist."""

import ast
from functools import cache

from mutants import ROOT, table

MUTANTS = table()


@cache
def functions(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def exists(test):
    file, _, name = test.partition("::")
    return (ROOT / file).is_file() and (not name or name.partition("[")[0] in functions(file))


def test_each_fault_can_be_planted():
    times = {m.id: (ROOT / m.file).read_text(encoding="utf-8").count(m.old) for m in MUTANTS}
    assert {id_: n for id_, n in times.items() if n != 1} == {}
    assert [m.id for m in MUTANTS if m.new == m.old] == []


def test_each_fault_has_tests_that_exist_or_an_argument():
    """Each with an id of its own; 120 or more that a test must find."""
    assert [m.id for m in MUTANTS if bool(m.tests) == bool(m.equivalent)] == []
    assert {test for m in MUTANTS for test in m.tests if not exists(test)} == set()
    ids = [m.id for m in MUTANTS]
    assert len(set(ids)) == len(ids)
    assert sum(m.equivalent is None for m in MUTANTS) >= 120
