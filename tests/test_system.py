"""`make system`: what the distribution has is installed, what it has not is named."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "system"
APT = """#!/bin/sh
# Knows every package but those called missing-*; those called broken-* cannot be installed.
case "$*" in
    update*) exit 0 ;;
    *--simulate*) case "$*" in *missing-*) exit 100 ;; esac; exit 0 ;;
esac
case "$*" in *broken-*) exit 100 ;; esac
echo "$*" >> "$LOG"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@pytest.fixture
def system(tmp_path):
    """Return a function that runs the script with a package manager of its own."""

    def run(*packages, user=0, apt=True, codename="trixie", **env):
        tools = tmp_path / "bin"
        tools.mkdir()
        for name, text in {"id": f"#!/bin/sh\necho {user}\n", "apt-get": APT}.items():
            if apt or name == "id":
                (tools / name).write_text(text)
                (tools / name).chmod(0o755)
        for name in ("bash", "sh"):
            (tools / name).symlink_to(shutil.which(name))
        release = tmp_path / "os-release"
        release.write_text(f"VERSION_CODENAME={codename}\n")
        given = {"PATH": str(tools), "LOG": str(tmp_path / "log"), "OS_RELEASE": str(release)}
        done = subprocess.run(
            [str(SCRIPT), *packages], env=given | env, capture_output=True, text=True, check=False
        )
        log = tmp_path / "log"
        asked = log.read_text().split() if log.exists() else []
        return done, [package for package in packages if package in asked]

    return run


@pytest.mark.parametrize("bad", [("missing-a", "missing-b"), ("broken-a",)])
def test_what_is_not_there_is_named_and_costs_nothing(system, bad):
    """What is not known, or cannot be installed: the others are, one by one if need be."""
    done, installed = system("gcc", *bad, "zsh")
    assert (done.returncode, installed) == (0, ["gcc", "zsh"])
    assert f"{' '.join(bad)};" in done.stdout


def test_where_all_are_there_nothing_is_said(system):
    """A line that names none would be noise."""
    done, installed = system("gcc", "zsh", CI="true", codename="bookworm")
    assert (done.returncode, done.stdout, installed) == (0, "", ["gcc", "zsh"])


@pytest.mark.parametrize(("codename", "fails"), [("bookworm", True), ("trixie", False)])
def test_in_ci_nothing_is_skipped_unseen(system, codename, fails):
    """Debian 12 has every package: one that is not there is an error."""
    done, _ = system("gcc", "missing-a", CI="true", codename=codename)
    assert bool(done.returncode) == fails


def test_who_is_not_root_is_told_so(system):
    """Nothing is tried."""
    done, installed = system("gcc", user=1000)
    assert (done.returncode, installed) == (2, [])
    assert "sudo make system" in done.stderr


@pytest.mark.parametrize(("env", "fails"), [({}, False), ({"CI": "true"}, True)])
def test_on_another_distribution_the_packages_are_named(system, env, fails):
    """By their names in Debian; the tests skip what needs them."""
    done, installed = system("gcc", "zsh", apt=False, **env)
    assert (bool(done.returncode), installed) == (fails, [])
    assert "gcc zsh" in done.stdout
