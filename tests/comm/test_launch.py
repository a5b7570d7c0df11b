"""Who started this process, and as which rank: the variables of its launcher."""

from types import SimpleNamespace

import pytest
from refusals import refusal
from tables import table

from gpumap.app.program import several
from gpumap.comm import engines
from gpumap.comm.ranks import VARIABLES, Launch, launched, ranks_of_node, without_ranks
from gpumap.errors import QuestionError

TABLE = table(__file__)


def variables(launchers, more=None):
    """Return the variables that these set, the later ones over the earlier, and others."""
    found = {}
    for name in launchers.split():
        found |= TABLE["launchers"][name]
    return found | (more or {})


@pytest.mark.parametrize(("by", "more", "rank"), TABLE["ranks"])
def test_each_launcher_is_understood_and_who_was_started_alone_is_no_rank(by, more, rank):
    assert launched(variables(by, more)) == (rank and Launch(*rank))


@pytest.mark.parametrize("by", ["Open MPI", "Slurm"])
@pytest.mark.parametrize(("place", "text", "said"), TABLE["no_rank"])
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


@pytest.mark.parametrize("by", TABLE["started_by"])
def test_what_a_rank_starts_is_no_rank(by):
    """Nothing of the rank's own place is left, and everything else is."""
    others = {"PATH": "/bin", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "77", "SLURM_NTASKS": "4"}
    found = without_ranks(variables(by, others))
    assert launched(found) is None
    assert found == others
    later = {"OMPI_MCA_orte_tmpdir_base": "/scratch", "PMIX_MCA_gds": "hash"}
    later = variables("torchrun", later)
    assert without_ranks(later) == later


@pytest.mark.parametrize(("by", "more", "ranks"), TABLE["of_node"])
def test_how_many_ranks_a_node_has(by, more, ranks):
    """None where the variables do not tell: nothing is guessed."""
    env = variables(by, more)
    assert ranks_of_node(launched(env), env) == ranks


@pytest.mark.parametrize(("by", "more", "torch", "engine"), TABLE["engines"])
def test_a_launcher_has_an_engine(monkeypatch, by, more, torch, engine):
    """Slurm is for both: who says where ranks of PyTorch meet, and has it, wants that."""
    monkeypatch.setattr(engines, "find_spec", lambda name: (torch and name == "torch") or None)
    rank, size, local, local_size = VARIABLES[by]
    env = {rank: "0", size: "2", local: "0", local_size or "FLUX_JOB_NNODES": "2"}
    program = SimpleNamespace(env=env | (more or {}))
    assert engines.engine_of(several(program), program.env) == engine
