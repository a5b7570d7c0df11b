"""docs/json.md has every key of a report and of a row, and none that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "gpumap" / "report" / "schema-1.json").read_text())
REPORT, ROW = (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split("## A row")


@pytest.mark.parametrize(
    ("text", "wanted"), [(REPORT, SCHEMA), (ROW, SCHEMA["$defs"]["measurement"])]
)
def test_the_page_lists_the_keys_of_the_schema(text, wanted):
    """In the first column of its tables."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = [key for cell in cells for key in re.findall("`(.*?)`", cell)]

    assert sorted(listed) == sorted(wanted["required"])
