"""`gpumap devices`: what is there, why the rest is not, and a line to paste."""

import json


def test_this_machine(gpumap):
    """Every real backend is asked, and the one that cannot be used says why; or one alone."""
    every, one = (
        gpumap("devices", *words, "--format", "json") for words in ((), ("--backend", "numpy"))
    )
    found, alone = json.loads(every.out), json.loads(one.out)
    assert (every.code, every.err, one.code) == (0, "", 0)
    assert [b["name"] for b in found["backends"]] == ["numpy", "pyopencl", "cupy", "pygpu"]
    assert [b["name"] for b in found["backends"] if not b["usable"] and not b["reason"]] == []
    assert (found["map"]["source"], found["simulated"]) == ("default", False)
    assert "cpu:0" in [device["id"] for device in found["devices"]]
    assert {device["backend"] for device in alone["devices"]} == {"numpy"}
    assert [backend["name"] for backend in alone["backends"]] == ["numpy"]
    assert gpumap("devices", "--backend", "fake", GPUMAP_FAKE="/nowhere.toml").code == 2
