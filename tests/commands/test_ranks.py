"""The ranks of several processes, as rank 0 judges what they say: names, nodes, refusals."""

from gpumap.app.mpi_job import Answer, node_names, unique_bindings
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.distributed.ranks import RankInfo
from gpumap.model import Binding


def answers(*places):
    """Return what ranks say that have a device of a host: ``("x", 0)``."""
    return [
        Answer(RankInfo(rank, "ab"[cuda], host, 100 + rank),
               Binding("ab"[cuda], device_of(FakeDevice(f"cuda{cuda}"))))
        for rank, (host, cuda) in enumerate(places)
    ]  # fmt: skip


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
