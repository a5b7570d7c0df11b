"""`gpumap devices`: what is there, why the rest is not, and a line to paste."""

import errno
import json

import pytest

from gpumap.app.program import lacking
from gpumap.errors import Exit, QuestionError


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


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_what_the_system_has_no_more_of_is_no_error_of_ours(number):
    """It is the user's to raise; every other error stays what it is."""
    found = lacking(OSError(number, "too many"))
    assert isinstance(found, QuestionError)
    assert found.exit_code == Exit.QUESTION
    for other in (None, OSError(errno.EIO, "broken"), ValueError("odd")):
        assert lacking(other) is other
