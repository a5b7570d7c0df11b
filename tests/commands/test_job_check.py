"""One of several processes: `check` has its own entry, and what is for one process is refused."""

import re

import pytest
from mpi_jobs import ended
from ranks import by_mpirun, needs_mpirun
from shell import on_a_terminal

from gpumap.app.rank_table import shared_devices, unique_bindings
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.model import Binding, Device, DeviceRef, Kind, Rank

CORES = "a->cpu0;b->cpu1"
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize("left_out", ["LOCAL_RANK", "RANK"])
def test_the_variables_of_a_container_make_no_rank(gpumap, left_out):
    """RANK and WORLD_SIZE are there without a launcher: it is checked as ever."""
    answer = gpumap("check", CORES, **{k: v for k, v in RANK.items() if k != left_out})
    assert (answer.code, answer.out.count("Mapped name")) == (0, 2)
    assert ("make no rank" in answer.err) == (left_out == "LOCAL_RANK")


def test_each_process_of_a_run_checks_its_own_entry(gpumap):
    answer = gpumap("run", "--quiet", CORES, "--", gpumap.command, "check")
    assert answer.code == 0
    assert sorted(re.findall(r"Mapped name . to device \w+", answer.out)) == [
        "Mapped name a to device cpu0", "Mapped name b to device cpu0"
    ]  # fmt: skip


@needs_mpirun
@pytest.mark.parametrize("command", ["bench dot", "transfer-cost", "check", "doctor"])
def test_what_is_for_one_process_is_refused_in_several(gpumap, command):
    """They would disturb each other; it is said once."""
    code, out, err = ended(by_mpirun(gpumap, 2, *command.split(), "--map", CORES))
    assert (code, out) == (2, "")
    assert err.count(f"error: {command} is for the devices of one process, ") == 1


def test_what_opens_no_device_is_for_each_of_several_processes(gpumap):
    """The syntax of a map is the same for every rank, and no rank waits for rank 0."""
    second = RANK | {"RANK": "1", "LOCAL_RANK": "1"}
    answer = gpumap("check", CORES, "--syntax-only", **second)
    assert (answer.code, answer.err) == (0, "")


def test_a_launchers_terminal_is_none(gpumap):
    """Ranks of mpirun have one, whatever becomes of what they print; one process has its own."""
    _, alone = on_a_terminal(gpumap, "predict", "--from", "theano-mpi")
    _, ranked = on_a_terminal(gpumap, "predict", "--from", "theano-mpi", **RANK)
    assert ("\x1b[" in alone, "\x1b[" in ranked) == (True, False)


def test_on_several_nodes_names_and_devices_have_the_number_of_theirs():
    """In the order of the ranks; no hardware is that of another node."""
    binding = Binding("a", device_of(FakeDevice("cuda0")))
    ranks = [Rank(rank, 0, host, rank, binding) for rank, host in enumerate("xy")]
    one, other = unique_bindings(ranks)
    assert [(b.name, b.device.id) for b in (one, other)] == [
        ("node0/a", "node0/cuda:0"), ("node1/a", "node1/cuda:0"),
    ]  # fmt: skip
    assert one.device.hardware.isdisjoint(other.device.hardware)


@pytest.mark.parametrize(("second", "fix"), [
    (0, "map each name to a device of its own"),
    (1, "take a backend that has cores apart: --backend numpy"),  # JAX has one pool of threads
])  # fmt: skip
def test_two_ranks_on_the_same_cores_are_told_what_can_help(second, fix):
    devices = [Device(f"jax:{n}", Kind.CPU, DeviceRef(Kind.CPU, n), "cores", "jax",
                      hardware=frozenset({"core:0", "core:1"})) for n in (0, second)]  # fmt: skip
    ranks = [Rank(n, n, "vm", 100 + n, Binding("ab"[n], each)) for n, each in enumerate(devices)]
    (found,) = shared_devices(ranks)
    assert found.hint == fix
