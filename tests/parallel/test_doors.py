"""Where the processes of a job meet: the same place for all of them, and another for each job."""

import pytest

from gpumap.parallel.comm.doors import door
from gpumap.parallel.launch import launched

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "4711",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1",
}  # fmt: skip
TORCHRUN = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x",
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


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_what_torchrun_has_on_the_loopback_is_one_machine(host):
    """Whatever it calls the nodes: who is reached there shares a kernel."""
    assert found(TORCHRUN | {"MASTER_ADDR": host}) is not None


@pytest.mark.parametrize(
    "env",
    [
        OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"},  # several machines, and no address
        {key: value for key, value in OPEN_MPI.items() if key != "PMIX_NAMESPACE"},
        {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"},
        SLURM | {"SLURM_STEP_NUM_NODES": "2"},
        SLURM | {"SLURM_STEP_NUM_NODES": "2", "MASTER_ADDR": "127.0.0.1"},
        *(
            TORCHRUN | {"MASTER_ADDR": host}
            for host in ("10.0.0.1", "node1", "", "127.0.0.1.example.org", "localhost.localdomain")
        ),
    ],
)
def test_between_machines_there_is_no_door(env):
    """Nor where the launcher tells too little: MPI itself brings the ranks together."""
    assert found(env) is None
