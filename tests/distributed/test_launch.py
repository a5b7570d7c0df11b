"""Who started this process, and as which rank: the variables of four launchers."""

import pytest
from refusals import refusal
from tables import table

from gpumap.distributed import VARIABLES, Launch, launched, without_ranks
from gpumap.errors import QuestionError

OPEN_MPI, MPICH, SLURM, TORCHRUN = table(__file__).values()


@pytest.mark.parametrize(("env", "rank"), [
    (OPEN_MPI, Launch("Open MPI", 3, 4, 1, 2)), (MPICH, Launch("MPICH", 3, 4, 1, 2)),
    (SLURM, Launch("Slurm", 3, 4, 1, None)),
    ({**SLURM, "SLURM_NTASKS_PER_NODE": "2"}, Launch("Slurm", 3, 4, 1, 2)),
    (TORCHRUN, Launch("torchrun", 3, 4, 1, 2)),
    (SLURM | OPEN_MPI, Launch("Open MPI", 3, 4, 1, 2)),
    # started alone, by the shell of a job that Slurm runs, or with a variable called RANK
    ({}, None), ({"RANK": "private"}, None), ({"OMPI_COMM_WORLD_RANK": "0"}, None),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}, None),
])  # fmt: skip
def test_each_launcher_is_understood_and_who_was_started_alone_is_no_rank(env, rank):
    assert launched(env) == rank


@pytest.mark.parametrize("by", VARIABLES)
@pytest.mark.parametrize(("place", "text", "said"), [
    (0, "-1", "is '-1', which is no number of ranks"),
    (1, "", "is '', which is no number of ranks"),
    (2, "\x1b[31m1", r"is '\x1b[31m1', which is no number of ranks"),
    (2, None, "is not set"), (0, "4", "is 4, and"), (2, "4", "is 4, and"),
    (1, "9" * 30, "which is no number of ranks"),
])  # fmt: skip
def test_what_makes_no_rank_is_named(by, place, text, said):
    env = dict(zip(VARIABLES[by], ("3", "4", "1", "4"), strict=True))
    name = VARIABLES[by][place]
    if text is None:
        del env[name]
    else:
        env[name] = text
    told = refusal(QuestionError, launched, env)
    assert told.message.startswith(f"the variables of {by} make no rank: {name} is ")
    assert said in told.message


@pytest.mark.parametrize("by", VARIABLES)
def test_a_rank_behind_the_last_of_its_machine_is_named(by):
    *_, local_rank, local_size = VARIABLES[by]
    env = dict(zip(VARIABLES[by], ("3", "4", "2", "2"), strict=True))
    told = refusal(QuestionError, launched, env)
    assert f"{local_rank} is 2, and {local_size} is 2" in told.message


@pytest.mark.parametrize("env", [OPEN_MPI, MPICH, SLURM, SLURM | OPEN_MPI])
def test_what_a_rank_starts_is_no_rank(env):
    """Nothing of the rank's own place is left, and everything else is."""
    others = {"PATH": "/bin", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "77", "SLURM_NTASKS": "4"}
    found = without_ranks(env | others)
    assert launched(found) is None
    assert found == others
    later = {"OMPI_MCA_orte_tmpdir_base": "/scratch", "PMIX_MCA_gds": "hash", **TORCHRUN}
    assert without_ranks(later) == later
