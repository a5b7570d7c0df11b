"""Commands on real cores, under mpirun and over the CUDA stand-in: what of them is no figure."""

import re
import shlex

CORES = "--map a->cpu0;b->cpu1"
CUDA = "--map dev0->cuda0;dev1->cuda1"

# Codes of notes that tell of the machine, or of the time that a run had.
BY_CHANCE = ("cpu-contention", "inconclusive", "unused", "quota", "shared-hardware", "not-pinned")
_NUMBER = re.compile(r"\d+(\.\d+)?")
ON_CORES = {
    "check": "check a->cpu0;b->cpu1",
    "dot": f"bench dot --size 64 --budget 1s {CORES}",
    "chain": f"bench chain --rows 1000 --budget 1s {CORES}",
    "transfer-cost": f"transfer-cost --sizes 4KiB --no-model --budget 1s {CORES}",
    "allreduce": f"bench allreduce --sizes 4KiB --comm local --budget 1s {CORES}",
    "train": f"bench train --batch-per-device 32 --comm local --budget 1s {CORES}",
}
OF_RANKS = {
    "allreduce": f"bench allreduce --sizes 4KiB --budget 1s {CORES}",
    "train": f"bench train --batch-per-device 32 --budget 1s {CORES}",
}
OF_CUDA = {
    "check": "check dev0->cuda0;dev1->cuda1",
    "devices": "devices --backend cupy",
    "dot": f"bench dot --size 64 --budget 1s {CUDA}",
    "transfer-cost": f"transfer-cost --sizes 4KiB --no-model --budget 1s {CUDA}",
    "allreduce": f"bench allreduce --sizes 4KiB --comm nccl --budget 1s {CUDA}",
}


def facts(command, code, report, table):
    """Return what a run on real devices must have: nothing of it depends on its time."""
    lines = [f"$ gpumap {shlex.join(command.split(' '))}", f"exit code {code}", ""]
    lines += [f"map {e['name']} {e['requested']} {e['device']}" for e in _map(report)["entries"]]
    lines += [f"row {row['id']}" for row in report["measurements"]]
    lines += [f"rank {r['rank']} {r['name']} {r['device']}" for r in report["ranks"]]
    lines += [f"note {_NUMBER.sub('#', text)}" for text in _notes(report)]
    lines += [f"columns {table.partition(chr(10))[0].strip()}"]
    return "".join(f"{line}\n" for line in lines)


def _map(report):
    return report["map"] or {"entries": (), "notes": ()}


def _notes(report):
    every = [*report["errors"], *report["notes"], *_map(report)["notes"]]
    return [f"{n['code']}: {n['message']}" for n in every if n["code"] not in BY_CHANCE]
