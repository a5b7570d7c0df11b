"""The ranks of several processes, as rank 0 judges what they say: names, nodes, refusals."""

import pytest

from gpumap.app.mpi_job import Answer, node_names, refuse, unique_bindings
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.distributed.ranks import RankInfo
from gpumap.errors import AbsentError, Diagnostic, Exit, GpumapError, QuestionError
from gpumap.model import Binding, replace


def answers(*places):
    """Return what ranks say that have a device of a host: ``("x", 0)``."""
    return [
        Answer(RankInfo(rank, "ab"[cuda], host, 100 + rank),
               Binding("ab"[cuda], device_of(FakeDevice(f"cuda{cuda}"))))
        for rank, (host, cuda) in enumerate(places)
    ]  # fmt: skip


def test_on_one_node_the_names_are_those_of_the_map():
    """So are the devices; no note is needed."""
    found = answers(("x", 0), ("x", 1))
    assert list(unique_bindings(found)) == [answer.binding for answer in found]
    assert list(node_names([answer.info for answer in found])) == []


def test_on_several_nodes_names_and_devices_have_the_number_of_theirs():
    """In the order of the ranks; a note says which host each is."""
    found = answers(("x", 0), ("y", 0), ("x", 1), ("y", 1))
    bindings = list(unique_bindings(found))
    (note,) = node_names([answer.info for answer in found])
    assert [b.name for b in bindings] == ["node0/a", "node1/a", "node0/b", "node1/b"]
    assert [b.device.id for b in bindings] == [
        "node0/cuda:0", "node1/cuda:0", "node0/cuda:1", "node1/cuda:1"
    ]  # fmt: skip
    hardware = [part for b in bindings for part in b.device.hardware]
    assert len(set(hardware)) == len(hardware)
    assert (note.message, note.severity) == ("node0 is x, node1 is y", "note")


def test_one_device_for_two_ranks_is_refused():
    """Of one node: the same device of another one is another one."""
    refuse(answers(("x", 0), ("y", 0)))
    with pytest.raises(QuestionError) as raised:
        refuse(answers(("x", 0), ("y", 0), ("x", 0)))
    (said,) = raised.value.diagnostics
    words = "x/a (rank 0, process 100) and x/a (rank 2, process 102) have one device, cuda:0"
    assert (said.message, bool(said.hint)) == (words, True)


@pytest.mark.parametrize(
    ("code", "kind"), [(Exit.QUESTION, QuestionError), (Exit.ABSENT, AbsentError)]
)
def test_what_a_rank_lacks_is_said_by_its_name(code, kind):
    first, second = answers(("x", 0), ("y", 1))
    lacking = replace(second, binding=None, problems=(Diagnostic("a", "no"),), code=code)
    with pytest.raises(GpumapError) as raised:
        refuse([first, lacking])
    (said,) = raised.value.diagnostics
    assert type(raised.value) is kind
    assert said.message == "y/b (rank 1, process 101): no"
