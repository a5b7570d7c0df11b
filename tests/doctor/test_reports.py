"""Real public reports, replayed: their facts go through the functions that judge a machine.

Each entry names its thread. Rules see only `facts`, `framework` and the line that the user quotes
(`symptom`); the label is what the answer is compared with.
"""

import json
from pathlib import Path

import tables

from gpumap.doctor.facts import Facts
from gpumap.doctor.framework_rules import causes

CODES = tables.table(__file__)["codes"]
REPORTS = json.loads(Path(__file__).with_name("reports.json").read_text(encoding="utf-8"))
KEYS = 3  # facts of a report that says enough to be judged
RATE = 0.9


def answer(report, *, symptom=True):
    lines = (report["symptom"],) if symptom else ()
    return causes(Facts(report["facts"], report["framework"], lines))


def right(report):
    return {CODES[label] for label in (report["cause"], *report.get("also_acceptable", ()))}


def missed(reports, **how):
    found = ((report, next(iter(answer(report, **how)), None)) for report in reports)
    return [
        report["id"] for report, first in found if first is None or first.code not in right(report)
    ]


def told():
    return [report for report in REPORTS if len(report["facts"]) >= KEYS]


def test_the_established_cause_is_first_in_nine_of_ten_reports_that_say_enough():
    """By the facts and the line that the user quotes."""
    assert len(told()) >= KEYS
    assert len(missed(told())) <= (1.0 - RATE) * len(told()), missed(told())


def test_facts_without_the_quoted_line_do_in_four_of_five():
    assert len(missed(told(), symptom=False)) <= 0.2 * len(told()), missed(told(), symptom=False)


def test_no_wrong_cause_is_called_certain():
    """A second cause may hold too: what counts is the one that is named first."""
    firsts = [
        (r, found[0]) for how in (True, False) for r in REPORTS if (found := answer(r, symptom=how))
    ]
    assert [r["id"] for r, first in firsts if first.certain and first.code not in right(r)] == []


def test_every_label_has_a_code_and_every_code_a_label():
    assert {report["cause"] for report in REPORTS} <= set(CODES)
    assert len(set(CODES.values())) == len(CODES)
