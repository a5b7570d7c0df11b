"""The schema of reports, read once; that it is one, tests/report/test_json.py checks."""

from __future__ import annotations

import json
from importlib import resources

from jsonschema import Draft202012Validator

SCHEMA = json.loads((resources.files("gpumap.report") / "schema-2.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def validate(report):
    """Raise ValidationError unless a report is what the schema says."""
    VALIDATOR.validate(report)
