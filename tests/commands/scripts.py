"""Scripts of fake devices whose times are exact in binary."""

import json

from report_schema import validate

RATE = 2**31
# Devices with a hostile name, shared hardware and a fault.
DEVICES = """
[[device]]
ref = "cuda0"
name = "Fake GPU A"
pci = "0000:09:00.0"
memory = 17179869184
[[device]]
ref = "cuda1"
name = "B [bold]\\u001b[2J"
uuid = "GPU-00000000-0000-0000-0000-00000000000b"
memory = 8192
hardware = ["card 1", "core:0", "core:1", "core:2"]
[[device]]
ref = "opencl0:0.1"
fault = "lost"
"""
# A program on two devices and the host, behind its imports and `ones`.
ON_TWO = """
with gpumap.open("a->cuda0;b->cuda1", backend="fake") as context:
    x, y = (context.shared(np.ones((64, 64), "float32"), target=name) for name in "ab")
    z = gpumap.dot(x, y)
    w = gpumap.dot(y, y)
    print(z.numpy()[0, 0])
    x.transfer("b")
    host = context.shared(ones, target="cpu")
    gpumap.dot(host, host)
"""


def script(*devices, **every):
    """Return a script with these devices; keywords are for all of them."""
    exact = {"rate": RATE, "latency": 2.0**-10, "bandwidth": 2**24}
    lines = []
    for number, device in enumerate(devices or ({}, {})):
        keys = {"ref": f"cuda{number}"} | exact | every | device
        lines += ["[[device]]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines)


def report(answer):
    """Return the JSON report on stdout; it must be what the schema says."""
    found = json.loads(answer.out)
    validate(found)
    return found


def asked(found):
    """Return the rows of what was asked for: without the controls."""
    return [row for row in found["measurements"] if row["bench"] != "control"]


def rows(found):
    return {(row["case"], "+".join(row["names"])): row for row in asked(found)}
