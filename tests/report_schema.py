"""The schema of reports, made once; that it is one, test_program_formats.py checks."""

import json

from flat_report import flat
from jsonschema import Draft202012Validator

from gpumap.model.schema import published

SCHEMA = published()
validate = Draft202012Validator(SCHEMA).validate


def checked(text):
    """Return the flat form of a report's JSON, which must be what the schema says."""
    tree = json.loads(text)
    validate(tree)
    return flat(tree)
