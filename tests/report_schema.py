"""The schema of reports, made once; that it is one, tests/report/test_json.py checks."""

from jsonschema import Draft202012Validator

from gpumap.saved import published

SCHEMA = published()
VALIDATOR = Draft202012Validator(SCHEMA)


def validate(report):
    VALIDATOR.validate(report)
