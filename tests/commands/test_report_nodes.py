"""gpumap report --nodes: which nodes of a folder of reports may take a job."""

import json

from commands.scripts import script
from saved_reports import signed


def test_a_folder_of_reports_becomes_two_lists(gpumap):
    """A node without a device, one whose report is cut off, and one that another command wrote."""
    folder = gpumap.folder / "checks"
    folder.mkdir()
    sound = gpumap.fake(script({}, latency=5e-6))
    within = ("--within", "50s", "--output")
    assert sound("preflight", "a->cuda0", *within, "checks/node1.json").code == 0
    assert sound("preflight", "a->cuda9", *within, "checks/node2.json").code == 3
    (folder / "node5.json").write_text((folder / "node1.json").read_text())
    for path in (folder / "node1.json", folder / "node2.json"):  # as if of a machine
        path.write_text(signed(json.loads(path.read_text()) | {"simulated": False}))
    (folder / "node3.json").write_text((folder / "node1.json").read_text()[:2000])
    assert sound("check", "a->cuda0", "--output", "checks/node4.json").code == 0
    answer = gpumap("report", "--nodes", "checks")
    assert answer.code == 0, answer.err
    words = [line.split()[:2] for line in answer.out.splitlines()]
    found = {word[0]: word[1] for word in words if word[0].startswith("node") and len(word) > 1}
    del found["node"]  # the heading
    unknown = dict.fromkeys(("node3", "node4", "node5"), "cannot-tell")  # node5 is simulated
    assert found == {"node1": "fit", "node2": "missing"} | unknown
    assert (folder / "passing.txt").read_text() == "node1\n"
    assert (folder / "failing.txt").read_text() == "node2\nnode3\nnode4\nnode5\n"
    assert answer.out.startswith("1 of 5 nodes are fit\n")
