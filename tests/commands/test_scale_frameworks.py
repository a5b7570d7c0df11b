"""`gpumap scale --ranks` on a program of PyTorch as people write it."""

import sys

from backends.frameworks import needs
from flat_report import loads
from ranks import two_cores

DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 8))
step = torch.optim.SGD(model.parameters(), lr=0.01)
rank, ranks = dist.get_rank(), dist.get_world_size()
for batch in torch.randn(512, 64)[rank::ranks].split(128 // ranks):
    step.zero_grad()
    model(batch).square().mean().backward()
    step.step()
dist.destroy_process_group()
open(f"done-{rank}-of-{ranks}", "a").write(".")
"""


@two_cores
@needs("torch")
def test_each_run_has_as_many_ranks_as_names(gpumap):
    """A first run on both names, and then a turn."""
    options = ("--ranks", "--budget", "1ms", "--inconclusive", "pass", "--output", "r.json")
    command = (sys.executable, "-W", "ignore", "-c", DDP)
    answer = gpumap("scale", "a->cpu0;b->cpu1", *options, "--", *command)
    assert answer.code == 0, answer.err
    done = {path.name: path.read_text() for path in gpumap.folder.glob("done-*")}
    assert done == {"done-0-of-1": ".", "done-0-of-2": "..", "done-1-of-2": ".."}
    steps = loads((gpumap.folder / "r.json").read_text())["scaling"]["steps"]
    assert [len(step["runs"][0]["worked_s"]) for step in steps] == [1, 2]
