"""Builds captured trees: the files of a machine, written from a few words about it."""

import itertools
from dataclasses import dataclass
from pathlib import Path

CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Sketch:
    root: Path

    def file(self, path, content):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
        return self

    def core(self, cpus):
        for cpu in cpus:
            self.file(f"{CPU}/cpu{cpu}/topology/thread_siblings_list", listed(cpus))
        return self

    def online(self, cpus, *, model="AMD EPYC 9554"):
        cpus = tuple(cpus)
        blocks = (f"processor\t: {c}\nmodel name\t: {model}\ncpu MHz\t\t: 2600.000\n" for c in cpus)
        return self.file(f"{CPU}/online", listed(cpus)).file("proc/cpuinfo", "\n".join(blocks))

    def node(self, node, cpus):
        return self.file(f"sys/devices/system/node/node{node}/cpulist", listed(cpus))

    def status(self, cpus):
        return self.file("proc/self/status", f"Name:\tpython\nCpus_allowed_list:\t{cpus}")

    def memory(self, total, available):
        lines = f"MemTotal: {total // 1024} kB\nMemFree: 4 kB\nMemAvailable: {available // 1024} kB"
        return self.file("proc/meminfo", lines)

    def pci(self, address, **files):
        """Write one PCI device; a name of a file that is a keyword ends in a line: class_."""
        for name, content in files.items():
            self.file(f"sys/bus/pci/devices/{address}/{name.rstrip('_')}", content)
        return self


def listed(cpus):
    runs = itertools.groupby(enumerate(sorted(set(cpus))), lambda pair: pair[1] - pair[0])
    spans = [[cpu for _, cpu in run] for _, run in runs]
    return ",".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
