"""Who started this process, and as which rank: the variables of its launcher."""

from types import SimpleNamespace

import pytest
from refusals import refusal
from tables import table

from gpumap.app.program import several
from gpumap.comm import engines
from gpumap.comm.ranks import VARIABLES, Launch, launched, ranks_of_node, without_ranks
from gpumap.errors import QuestionError

OPEN_MPI, MPICH, SLURM, TORCHRUN = table(__file__).values()
FLUX = {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1"}
PMI = {"PMI_RANK": "3", "PMI_SIZE": "4"}  # of Flux and of srun --mpi=pmi2, too
PALS = PMI | {"PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"}


@pytest.mark.parametrize(("env", "rank"), [
    (OPEN_MPI, Launch("Open MPI", 3, 4, 1, 2)), (MPICH, Launch("MPICH", 3, 4, 1, 2)),
    (SLURM, Launch("Slurm", 3, 4, 1, None)),
    # what the job has requested of each node is not what the step has there
    ({**SLURM, "SLURM_NTASKS_PER_NODE": "1"}, Launch("Slurm", 3, 4, 1, None)),
    (TORCHRUN, Launch("torchrun", 3, 4, 1, 2)),
    (SLURM | OPEN_MPI, Launch("Open MPI", 3, 4, 1, 2)),
    (FLUX | PMI, Launch("Flux", 3, 4, 1, None)), (SLURM | PMI, Launch("Slurm", 3, 4, 1, None)),
    (PALS, Launch("PMI", 3, 4, 1, 2)),
    # started alone, by the shell of a job that Slurm runs, or with a variable called RANK
    ({}, None), ({"RANK": "private"}, None), ({"OMPI_COMM_WORLD_RANK": "0"}, None),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}, None),
])  # fmt: skip
def test_each_launcher_is_understood_and_who_was_started_alone_is_no_rank(env, rank):
    assert launched(env) == rank


@pytest.mark.parametrize("by", ["Open MPI", "Slurm"])
@pytest.mark.parametrize(("place", "text", "said"), [
    (0, "-1", "is '-1', which is no number of ranks"),
    (1, "", "is '', which is no number of ranks"),
    (2, "\x1b[31m1", r"is '\x1b[31m1', which is no number of ranks"),
    (2, None, "is not set"), (0, "5", "is 5, and"), (2, "4", "is 4 of 4"),
    (1, "9" * 30, "which is no number of ranks"),
])  # fmt: skip
def test_what_makes_no_rank_is_named(by, place, text, said):
    env = dict(zip(VARIABLES[by], ("3", "5", "1", "4"), strict=True))
    name = VARIABLES[by][place]
    if text is None:
        del env[name]
    else:
        env[name] = text
    told = refusal(QuestionError, launched, env)
    assert told.message.startswith(f"the variables of {by} make no rank: {name} is ")
    assert said in told.message


@pytest.mark.parametrize("env", [OPEN_MPI, MPICH, SLURM, SLURM | OPEN_MPI, FLUX | PMI, PALS])
def test_what_a_rank_starts_is_no_rank(env):
    """Nothing of the rank's own place is left, and everything else is."""
    others = {"PATH": "/bin", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "77", "SLURM_NTASKS": "4"}
    found = without_ranks(env | others)
    assert launched(found) is None
    assert found == others
    later = {"OMPI_MCA_orte_tmpdir_base": "/scratch", "PMIX_MCA_gds": "hash", **TORCHRUN}
    assert without_ranks(later) == later


@pytest.mark.parametrize(("env", "ranks"), [
    (OPEN_MPI, 2), (MPICH, 2), (TORCHRUN, 2), (PALS, 2), (FLUX, None),
    (FLUX | {"FLUX_JOB_NNODES": "1"}, 4),
    (SLURM, None), (SLURM | {"SLURM_STEP_NUM_NODES": "1"}, 4),
    # by the step, whatever the job has requested of each node
    (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_NTASKS_PER_NODE": "8"}, 2),
    *((SLURM | {"SLURM_STEP_TASKS_PER_NODE": text}, None) for text in ("3,1", "many", "9(x9)")),
])  # fmt: skip
def test_how_many_ranks_a_node_has(env, ranks):
    """None where the variables do not tell: nothing is guessed."""
    assert ranks_of_node(launched(env), env) == ranks


def env_of(by):
    rank, size, local, local_size = VARIABLES[by]
    return {rank: "0", size: "2", local: "0", local_size or "FLUX_JOB_NNODES": "2"}


@pytest.mark.parametrize(("by", "more", "torch", "engine"), [
    ("Open MPI", {}, True, "mpi"), ("MPICH", {}, True, "mpi"), ("PMI", {}, True, "mpi"),
    ("Flux", {}, True, "mpi"), ("torchrun", {}, False, "torch"),
    ("torchrun", {"GPUMAP_RUN": "0f"}, False, "torch"),
    ("Slurm", {}, True, "mpi"), ("Slurm", {"MASTER_ADDR": "n0"}, False, "mpi"),
    ("Slurm", {"MASTER_ADDR": "n0"}, True, "torch"),
])  # fmt: skip
def test_a_launcher_has_an_engine(monkeypatch, by, more, torch, engine):
    """Slurm is for both: who says where ranks of PyTorch meet, and has it, wants that."""
    monkeypatch.setattr(engines, "find_spec", lambda name: (torch and name == "torch") or None)
    program = SimpleNamespace(env=env_of(by) | more)
    assert engines.engine_of(several(program), program.env) == engine
