"""`gpumap env --output FILE` and `--replay FILE`: a machine to attach to an issue, and to ask."""

import json
from unittest.mock import Mock

import pytest
from here import HOST
from tables import table
from test_redaction import EVERY

from gpumap.app.replay import replay
from gpumap.model import replace

TABLE = table(__file__)
DEVICES = TABLE["devices"]


@pytest.fixture
def recorded(gpumap):
    """Return gpumap on scripted devices, whose machine has been written to env.json."""
    gpumap.fake(DEVICES.replace(" {secrets}", ""))
    assert gpumap("env", "--output", "env.json").code == 0
    (gpumap.folder / "use.toml").write_text('ignore = ["use"]')
    return gpumap


def elsewhere(gpumap, *arguments):
    """Run gpumap without these scripted devices."""
    return gpumap(*arguments, GPUMAP_FAKE="", GPUMAP_BACKEND="")


def test_no_planted_secret_is_in_what_is_shown_or_written(gpumap):
    """In variables, names of the home folder and the user, and what a driver calls a device."""
    texts = [text.format(secret) for _, secret, text in EVERY]
    gpumap.fake(DEVICES.replace("{secrets}", " ".join(texts).replace("\\", "").replace('"', "'")))
    variables = {"XLA_FLAGS": " ".join(texts[:30]), "LIBTPU_INIT_ARGS": " ".join(texts[30:]),
                 "CUDA_VISIBLE_DEVICES": "```\x1b[31m"}  # fmt: skip
    answer = gpumap(
        "env", "--output", "env.json", **variables, USER="jdoe", LOGNAME="jane.doe",
        HOME="/home/jdoe", HOSTNAME="node17.hpc.example",
    )  # fmt: skip
    assert answer.code == 0, answer
    written = (gpumap.folder / "env.json").read_text()
    assert "<token>" in written
    assert "<host>" in answer.out
    assert "\x1b" not in answer.out
    assert [line[:3] for line in answer.out.splitlines()].count("```") == len(("begin", "end"))
    left = [secret for _, secret, _ in EVERY if secret in written or secret in answer.out]
    assert left == []


def test_a_kind_is_kept_on_request(gpumap):
    gpumap.fake(DEVICES.replace("{secrets}", "of jdoe, Serial: 77X"))
    assert gpumap("env", "--output", "env.json", "--with", "users", USER="jdoe").code == 0
    name = json.loads((gpumap.folder / "env.json").read_text())["devices"][0]["name"]
    assert name == "Card of jdoe, Serial: <serial>"


def test_a_replay_lists_what_the_machine_listed(recorded):
    """As `env` wrote it, or as a report of `devices` has it."""
    there = recorded("devices", "--output", "own.json")
    for file in ("env.json", "own.json"):
        here = elsewhere(recorded, "devices", "--replay", file)
        assert (here.code, here.out) == (0, there.out)
        assert f"the devices are those of {file}" in here.err


@pytest.mark.parametrize(("command", "code", "said"), TABLE["replayed"])
def test_a_map_is_looked_up_in_the_machine_of_the_file(recorded, command, code, said):
    """None of its devices is opened; what the file does not tell is absent, or cannot be told."""
    answer = elsewhere(recorded, *command.split(), "--replay", "env.json")
    assert answer.code == code, answer
    assert said in answer.out + answer.err


def test_what_is_true_of_this_machine_is_not_said_of_the_file_s(recorded):
    """Not its quota, cores that this process may use, variables, nor what is on its bus."""
    here = replace(HOST.topology, quota=0.5, online=99)
    bound = replace(HOST, topology=here, env={"CUDA_LAUNCH_BLOCKING": "1"})
    program = Mock(host=lambda: bound)
    there = replay(Mock(remarks=[], program=program), None, recorded.folder / "env.json")[0].host
    assert (there.topology.quota, there.root.exists()) == (None, False)
    assert "CUDA_LAUNCH_BLOCKING" not in there.env
    assert there.topology.online == len(HOST.topology.cpus)


def test_a_machine_that_was_edited_is_refused(recorded):
    path = recorded.folder / "env.json"
    path.write_text(path.read_text().replace("0000:09:00.0", "0000:0a:00.0"))
    edited = elsewhere(recorded, "devices", "--replay", "env.json")
    assert edited.code == 2
    assert "env.json" in edited.err


def test_a_file_that_cannot_be_written_is_said(recorded):
    answer = recorded("env", "--output", "none/env.json")
    assert (answer.code, "none/env.json" in answer.err) == (2, True)
