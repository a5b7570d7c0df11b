"""`make system`: what the distribution has is installed, what it has not is named."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tables import table

SCRIPT = Path(__file__).parents[1] / ".ci" / "system"
TABLE = table(__file__)
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def system(folder, *packages, user=0, apt=True, codename="trixie", **env):
    """Run the script with a package manager of its own."""
    tools = folder / "bin"
    tools.mkdir()
    for name, text in {"id": f"#!/bin/sh\necho {user}\n", "apt-get": TABLE["apt"]}.items():
        if apt or name == "id":
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
    for name in ("bash", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    release, log = folder / "os-release", folder / "log"
    release.write_text(f"VERSION_CODENAME={codename}\n")
    given = {"PATH": str(tools), "LOG": str(log), "OS_RELEASE": str(release)}
    done = subprocess.run(
        [str(SCRIPT), *packages], env=given | env, capture_output=True, text=True, check=False
    )
    asked = log.read_text().split() if log.exists() else []
    return done, [package for package in packages if package in asked]


@pytest.mark.parametrize(("packages", "how", "code", "installed", "said"), TABLE["told"])
def test_what_is_not_there_is_named_and_costs_nothing(
    tmp_path, packages, how, code, installed, said
):
    """It is skipped by the tests that need it; in CI nothing is skipped unseen."""
    done, found = system(tmp_path, *packages.split(), **how)
    assert (done.returncode, found) == (code, installed.split())
    told = done.stdout + done.stderr
    assert (said in told, bool(said)) == (True, bool(told))
