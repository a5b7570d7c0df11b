"""Scripts of fake devices whose times are exact in binary."""

import json

from report_schema import checked

RATE = 2**31


def script(*devices, **every):
    """Return a script with these devices; keywords are for all of them."""
    exact = {"rate": RATE, "latency": 2.0**-10, "bandwidth": 2**24}
    lines = []
    for number, device in enumerate(devices or ({}, {})):
        keys = {"ref": f"cuda{number}"} | exact | every | device
        lines += ["[[device]]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines)


def scripted(row):
    """Return the script that a row of a table describes; by default of two devices."""
    if "text" in row:
        return row["text"]
    host = f"[host]\nrate = {row['host']}\n\n" if "host" in row else ""
    return host + script(*row.get("devices", ()), **row.get("each", {}))


def report(answer):
    """Return the JSON report on stdout; it must be what the schema says."""
    return checked(answer.out)


def asked(found):
    """Return the rows of what was asked for: without the controls."""
    return [row for row in found["measurements"] if row["bench"] != "control"]
