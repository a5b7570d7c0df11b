"""Reports of schema version 1, upgraded by the table of docs/schema-2.md, equal those of today.

`version_1.json` has reports of tests/expected/runs as they were before version 2, masked and folded
in the same way.
"""

import json
import re
from pathlib import Path

import pytest
import tables
from golden import FOLDER, ROUNDING

TABLES = tables.table(__file__)
KEYS = TABLES["keys"]
CODES = TABLES["codes"]
OF_CODES = ("bench", "code", "cause", "flags")
OF_IDS = ("id", "against", "cases")
OF_WORDS = ("message", "text")
HERE = "<here>"  # what stands for a machine's own values
# Keys that a report of version 1 holds nothing of.
NEW = ("headline", "digest")
# Of a training, rules that have a meaning of their own since: they are asynchronous, and take more
# of the budget, so that the others have fewer samples.
CHANGED = ("rule=easgd", "rule=gosgd")
SAMPLED = (
    "samples", "blocks", "queue_s", "phases_s", "stop", "intervals", "metrics", "lines",
    "sizes_bytes", "residual_max", "held_back", "elapsed_s", "iterations_per_sample",
    "wins", "shares",
)  # fmt: skip
OLD = json.loads(Path(__file__).with_name("version_1.json").read_text())


def renamed(value, key=""):
    """Return a value with the keys, codes and ids of version 2."""
    if isinstance(value, dict):
        return {KEYS.get(k, k): renamed(item, k) for k, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, key) for item in value]
    if not isinstance(value, str):
        return value
    if key in OF_CODES:
        return CODES.get(value, value)
    if key in OF_IDS:
        warm = re.sub(
            r"^(allreduce\.\w+\[backend=\w+,)(?=.*pattern=alone)", r"\1buffers=warm,", value
        )
        return re.sub(r"^anchor\.", "control.", warm)
    return value.replace("silicon", "hardware") if key in OF_WORDS else value


def upgraded(tree):
    found = renamed(tree) | {"schema_version": 2}
    for one in (*found["measurements"], *found["break_evens"]):
        if one["check"] is not None:
            other = {"max_error": HERE, "bound": None, "bytes": None, "first_bad_offset": None}
            one["check"] = other | one["check"]
    for row in found["measurements"]:
        if row["bench"] == "allreduce" and row["params"]["pattern"] == "alone":
            row["params"]["buffers"] = "warm"
    for fit in found["fits"]:
        fit.setdefault("lines", [])
        if fit["residual_max"] is not None and fit["residual_max"] < ROUNDING:
            fit["residual_max"] = 0
    for trace in found["traces"]:
        for event in trace["events"]:
            event.setdefault("line", None)
    for diagnosis in found["diagnoses"]:
        diagnose(diagnosis)
    return found


def diagnose(diagnosis):
    """Give a diagnosis the shape of version 2: its causes in one list, figures beside their words.

    Whose name is used has none.
    """
    first = {key: diagnosis.pop(key) for key in ("code", "cause", "fix", "evidence")}
    causes = [first, *diagnosis.pop("behind")]
    diagnosis["findings"] = [finding(cause) for cause in causes if cause["code"]]
    seen = diagnosis.pop("seen")
    diagnosis |= {"evidence": seen["text"], "figures": seen["figures"], "interpreter": None}
    for example in diagnosis["examples"]:
        del example["outcome"]
        example["found"] = example["found"] and finding(example["found"])


def finding(cause):
    evidence = cause.pop("evidence")
    of_frameworks = {"certainty": None}
    return cause | {"text": evidence["text"], "figures": evidence["figures"]} | of_frameworks


def written(name):
    text = (FOLDER / "runs" / f"{name}.txt").read_text().split("===== json\n")[1]
    text = text.split("\n===== ")[0]
    text = re.sub(rf'": {HERE}(\n +\{{)', r'": [\1', text)  # a list whose first line is masked
    text = re.sub(rf'": {HERE}', f'": "{HERE}"', text)
    folded = r"\[([^\[\]{}\n]*(?: times|sum [^\]\n]*))\]"
    return json.loads(re.sub(folded, lambda found: json.dumps(found[0]), text))


@pytest.mark.parametrize("name", OLD)
def test_a_report_of_version_1_is_that_of_version_2_upgraded(name):
    """Of every kind of run; nothing is lost that the table does not name."""
    new = written(name)
    assert all(new.pop(key) for key in NEW)
    assert new.pop("utilisation") is None  # of no kind of run that version 1 had
    assert new.pop("scaling") is None
    if new["kind"] == "check":
        assert new["settings"].pop("opened")
    old = upgraded(OLD[name])
    for tree in (old, new):
        rows = tree["measurements"]
        tree["measurements"] = [r for r in rows if not any(c in r["id"] for c in CHANGED)]
    ids = [{row["id"] for row in tree["measurements"]} for tree in (old, new)]
    assert all("pattern=ladder" in id_ for id_ in ids[0] ^ ids[1])  # it has other sizes since
    for tree in (old, new):
        rows = (row for row in tree["measurements"] if row["id"] in ids[0] & ids[1])
        tree["measurements"] = [{k: sampled(k, v) for k, v in row.items()} for row in rows]
        for part in ("fits", "break_evens"):
            every = [{**one, "check": None} for one in tree[part]]  # of other sizes
            tree[part] = [
                {k: sampled(k, v) for k, v in one.items() if k != "metrics"} for one in every
            ]
    for row in new["measurements"]:
        row.pop("control_s")
    assert {k: sampled(k, v) for k, v in old.items()} == {k: sampled(k, v) for k, v in new.items()}


def sampled(key, value):
    """Return the shape of what a run measures: what is sampled, and when, has changed since."""
    if key not in SAMPLED:
        return value
    return sorted(value) if isinstance(value, dict) else value is None


def test_every_kind_of_report_was_upgraded():
    """And every key and code of the table is in one of them."""
    kinds = {"check", "devices", "doctor", "bench", "transfer-cost", "predict", "selftest",
             "compare", "trace"}  # fmt: skip
    assert {tree["kind"] for tree in OLD.values()} == kinds
    text = json.dumps(OLD)
    assert [key for key in KEYS if f'"{key}":' not in text] == []
