"""The house has a budget for each folder: what grows is seen, what shrinks is written down.

`make budget` writes `budget.toml` from the tree. A higher number is then a line of the difference
that a reviewer reads, with its reason in the commit.
"""

import ast
import io
import tokenize
import tomllib
from collections import Counter

from written import ROOT

BUDGET = ROOT / "tests" / "budget.toml"
SLACK = 50  # lines below a budget that need not be written down
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source):
    """Return how many lines hold code: no docstring, comment or blank."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def size(root):
    """Return the size of a tree, by the sections and keys of the budget."""
    package, tests = root / "gpumap", root / "tests"
    code, whole = Counter(), {"texts": 0, "tests": 0, "tables": 0, "expected": 0}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).parts
        code[parts[0] if len(parts) > 1 else "top"] += code_lines(file.read_text("utf-8"))
    for name, folder, pattern in (
        ("texts", package, "*.toml"), ("tests", tests, "*.py"), ("tables", tests, "*.toml"),
        ("expected", tests / "expected", "*"),
    ):  # fmt: skip
        files = (each for each in folder.rglob(pattern) if each.is_file() and each != BUDGET)
        whole[name] = sum(each.read_bytes().count(b"\n") for each in files)
    return {"code": {**dict(sorted(code.items())), "gpumap": code.total()}, "lines": whole}


def faults(budget, found):
    """Yield what is larger than its budget, or so much smaller that it must be written down."""
    for section in sorted(budget.keys() | found.keys()):
        allowed, there = budget.get(section, {}), found.get(section, {})
        for key in sorted(allowed.keys() | there.keys()):
            most, now = allowed.get(key, 0), there.get(key, 0)
            if now > most:
                yield (
                    f"{section}.{key}: {now} lines, {now - most} more than tests/budget.toml allows"
                    ". Make it smaller; or run `make budget`, with the reason in the commit"
                )
            elif now < most - SLACK or (key in allowed and key not in there):
                yield f"{section}.{key}: {now} lines, {most} are allowed: run `make budget`"


def test_no_part_is_larger_than_its_budget():
    budget = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    assert [*faults(budget, size(ROOT))] == []


def test_a_hundred_lines_more_are_seen_and_named(tmp_path):
    """Code alone counts: of a docstring, a comment and a blank line none does."""
    file = tmp_path / "gpumap" / "bench" / "more.py"
    file.parent.mkdir(parents=True)
    file.write_text('"""Docstring\n\nof three lines."""\n\n# a comment\nx = """one\ntwo"""\n')
    before = size(tmp_path)
    assert before["code"] == {"bench": 2, "gpumap": 2}
    assert [*faults(before, before)] == []
    file.write_text(file.read_text() + "x += 1\n" * 100)
    found = [*faults(before, size(tmp_path))]
    assert [fault.partition(":")[0] for fault in found] == ["code.bench", "code.gpumap"]
    assert "102 lines, 100 more than" in found[0]
    assert "`make budget`" in found[0]


def test_what_is_smaller_is_written_down():
    """Not for a few lines; a folder that is gone has no budget either."""
    budget = {"code": {"bench": 100, "old": 10}}
    found = [*faults(budget, {"code": {"bench": 49}})]
    assert [fault.partition(" lines")[0] for fault in found] == ["code.bench: 49", "code.old: 0"]
    assert [*faults({"code": {"bench": 100}}, {"code": {"bench": 50}})] == []


def main():
    """Write the budget anew: `make budget`."""
    lines = ["# Lines that each part may have; `make budget` writes them (tests/test_budget.py)."]
    for section, sizes in size(ROOT).items():
        lines += ["", f"[{section}]", *(f"{key} = {number}" for key, number in sizes.items())]
    BUDGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
