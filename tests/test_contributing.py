"""CONTRIBUTING and the index of records are true: what they list is what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MEASURED = ROOT / "docs" / "measured"


def test_every_script_is_in_contributing():
    """Of the files in benchmarks/, each that runs by itself, and no other."""
    scripts = {
        file.name for file in (ROOT / "benchmarks").glob("*.py") if "__main__" in file.read_text()
    }
    listed = TEXT[TEXT.index("`benchmarks/` holds") : TEXT.index("`docs/method.md`")]

    assert set(re.findall(r"`(\w+\.py)`", listed)) == scripts


def test_every_record_is_in_the_index():
    """By its name without a suffix, and each row of the index has its page."""
    index = (MEASURED / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\) \|", index, re.MULTILINE)

    assert [page for _, page in rows] == [f"{name}.md" for name, _ in rows]
    assert {name for name, _ in rows} == {
        file.stem for file in MEASURED.iterdir() if file.name != "README.md"
    }
    assert all((MEASURED / page).is_file() for _, page in rows)


def test_every_command_in_the_table_of_imports_is_counted():
    """In the order of `benchmarks/imports.py`, which makes the table."""
    from benchmarks.imports import COMMANDS

    table = TEXT[TEXT.index("| command | modules |") : TEXT.index("## Adding things")]

    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(COMMANDS)
