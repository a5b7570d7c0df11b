"""Where the processes of a job meet: the same place for all of them, and another for each job."""

from __future__ import annotations

import pytest

from gpumap.parallel.comm.doors import door
from gpumap.parallel.launch import launched

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "4711",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[07-08,11]",
}  # fmt: skip
TORCHRUN = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x",
}  # fmt: skip


def found(env):
    """Return the door of a rank with these variables."""
    return door(launched(env), env)


@pytest.mark.parametrize(
    ("env", "second"),
    [
        (OPEN_MPI, {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}),
        (SLURM, {"SLURM_PROCID": "1", "SLURM_LOCALID": "0"}),
        (TORCHRUN, {"RANK": "1"}),
    ],
)
def test_all_ranks_of_a_job_find_one_door(env, second):
    """Whatever differs between them."""
    assert found(env) == found(env | second) is not None


@pytest.mark.parametrize(
    ("env", "another"),
    [
        (OPEN_MPI, {"PMIX_NAMESPACE": "4712"}),
        (SLURM, {"SLURM_STEP_ID": "1"}),
        (SLURM, {"SLURM_JOB_ID": "8"}),
        (TORCHRUN, {"TORCHELASTIC_RUN_ID": "y"}),
        (TORCHRUN, {"TORCHELASTIC_RESTART_COUNT": "1"}),
        (TORCHRUN, {"GPUMAP_RUN": "abc"}),
        (OPEN_MPI | {"GPUMAP_RUN": "abc"}, {"PMIX_NAMESPACE": "4712"}),
    ],
)
def test_another_job_has_another_door(env, another):
    """Even on the same machine, at the same time."""
    assert found(env).job != found(env | another).job


def test_on_one_machine_the_door_is_no_port():
    """Who has no host needs none."""
    one = SLURM | {"SLURM_STEP_NUM_NODES": "1"}

    assert [(each.host, each.ports) for each in map(found, (OPEN_MPI, one))] == [(None, ())] * 2


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n[07-08,11]", "n07"), ("n7", "n7"), ("a,b", "a"), ("gpu-[3,9]-x,other", "gpu-3-x")],
)
def test_between_machines_the_door_is_on_that_of_rank_0(nodes, first):
    """The first one of Slurm's list."""
    assert found(SLURM | {"SLURM_STEP_NODELIST": nodes}).host == first


def test_the_port_that_a_program_has_is_left_to_it():
    """Torchrun's own store listens on MASTER_PORT; those behind it are tried."""
    there = found(TORCHRUN)

    assert (there.host, there.ports) == ("10.0.0.1", tuple(range(29501, 29509)))


@pytest.mark.parametrize("port", ["", "0", "65535", "9" * 30, "x", "²", "-1"])
def test_without_a_port_the_job_has_some_of_its_own(port):
    """All of them are ports, whatever stands in the variable."""
    ports = found(TORCHRUN | {"MASTER_PORT": port}).ports

    assert len(ports) == 8
    assert 1024 < ports[0] < ports[-1] < 65536


@pytest.mark.parametrize(
    "env",
    [
        OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"},  # several machines, and no address
        {key: value for key, value in OPEN_MPI.items() if key != "PMIX_NAMESPACE"},
        {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"},
        SLURM | {"SLURM_STEP_NODELIST": "$(touch x)"},
        SLURM | {"SLURM_STEP_NODELIST": ""},
    ],
)
def test_who_is_told_too_little_has_no_door(env):
    """Then MPI itself brings the ranks together."""
    assert found(env) is None
