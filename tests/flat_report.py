"""A report as most tests look at it: a row is one object, and the map has its devices and notes."""

import json

NONE = dict.fromkeys(("utilisation", "scaling", "prediction"))
NONE |= {name: [] for name in ("measurements", "fits", "traces", "diagnoses")}


def loads(text):
    return flat(json.loads(text))


def flat(tree):
    """Return a report in which what its nouns hold lies side by side; what is none, as it is."""
    if "schema_version" not in tree:
        return tree
    tree = _finite(tree)
    tree = NONE | tree | tree["result"]
    del tree["result"], tree["type"]
    return tree | {
        "map": tree["source"] and _map(tree),
        "notes": [] if tree["source"] else tree["notes"],
        "errors": [each["diagnostic"] | {"exit": each["exit"]} for each in tree["errors"]],
        "measurements": list(map(_row, tree["measurements"])),
    }


def _finite(tree):
    """Return a tree with null for a number that JSON cannot hold."""
    if isinstance(tree, dict):
        odd = list(tree) == ["nonfinite"]
        return None if odd else {key: _finite(item) for key, item in tree.items()}
    return list(map(_finite, tree)) if isinstance(tree, list) else tree


def _map(tree):
    source, there = tree["source"], {each["name"]: each["device"] for each in tree["bindings"]}
    entries = [
        {"name": each["name"], "device": there.get(each["name"])}
        for each in (tree["map"] or {"entries": ()})["entries"]
    ]
    about = {"text": source["text"], "source": source["origin"], "source_path": source["path"]}
    return about | {"entries": entries, "notes": tree["notes"]}


def _row(row):
    case, samples = row["case"], row["samples"] or {"seconds": [], "clock": None}
    bound = case["bindings"]
    return row | samples | case | {
        "case": case["name"],
        "names": [each["name"] for each in bound],
        "devices": [each["device"] for each in bound],
        "route": row["route"],
        "samples": samples["seconds"],
    }  # fmt: skip
