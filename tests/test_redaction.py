"""What `gpumap env` may show strangers: no host, user, path, serial number or token; all else."""

import pytest
from tables import table

from gpumap.redaction import KINDS, Redaction

ENV = {"HOME": "/home/jdoe", "USER": "jdoe", "LOGNAME": "jane.doe", "SUDO_USER": "root"}
HOSTS = {"node17.hpc.example", "node17"}
PLANTED, KEPT = table(__file__), table(__file__, "test_redaction_kept")
EVERY = [(kind, each, text) for kind, found in PLANTED.items() for each, text in found.items()]


@pytest.mark.parametrize(("kind", "secret", "text"), EVERY)
def test_what_tells_whose_machine_it_is_goes_unless_its_kind_is_kept(kind, secret, text):
    """Which other kinds a text has too are taken out of it all the same; a token is never kept."""
    written = text.format(secret)
    shown = Redaction(ENV, HOSTS).text(written)
    assert secret not in shown
    assert f"<{kind[:-1]}>" in shown
    assert (secret in Redaction(ENV, HOSTS, KINDS).text(written)) == (kind != "tokens")
    assert secret not in Redaction(ENV, HOSTS, set(KINDS) - {kind}).text(written)


@pytest.mark.parametrize("text", KEPT["kept"])
def test_what_tells_how_a_machine_is_set_up_stays(text):
    assert Redaction(ENV, HOSTS).text(text) == text


@pytest.mark.parametrize(("text", "gone"), KEPT["other_forms"])
def test_other_forms_of_secrets_go(text, gone):
    assert gone not in Redaction(ENV, HOSTS).text(text)


def test_a_name_that_is_a_word_of_gpumap_is_no_secret():
    """Else a user called nvidia would have a file that no one can read."""
    shown = Redaction({"USER": "nvidia", "LOGNAME": "numpy"}, {"cpu"})
    assert shown.text("NVIDIA driver, numpy on cpu") == "NVIDIA driver, numpy on cpu"
    tree = {"kind": "jdoe", "backends": [{"name": "jdoe", "usable": True}], "name": "jdoe"}
    assert Redaction(ENV).tree(tree) == tree | {"name": "<user>"}


def test_a_report_is_taken_apart_key_by_key():
    """A key that names a serial number hides whatever stands there, numbers too."""
    tree = {"facts": {"serial": 77, "board_serial": "x"}, "n": [1, None, "by jdoe"]}
    hidden = {"facts": {"serial": "<serial>", "board_serial": "<serial>"}}
    assert Redaction(ENV, HOSTS).tree(tree) == hidden | {"n": [1, None, "by <user>"]}
    assert Redaction(ENV, HOSTS, KINDS).tree(tree) == tree
