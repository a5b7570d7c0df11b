"""Processes as the files of the kernel have them, and a watch that a test takes step by step."""

from dataclasses import dataclass

from trees import Sketch

from gpumap.launch.watching import Watch
from gpumap.model import Binding, Device, DeviceRef, Kind


def tree(
    folder, pid=100, ticks=0, processor=0, drm=(), threads=(), children="", state="S", waited=0,
    gone=0,
):  # fmt: skip
    """Write a process as proc(5) has it; its name has what names may have.

    `waited` are ticks of its children, `gone` those of its threads that have ended.
    """
    proc, sketch = folder / "proc" / str(pid), Sketch(folder)

    def stat(thread, spent, core):
        fields = [state, *[0] * 10, spent, 0, waited, 0, 20, 0, 1 + len(threads), 0, 555, 0, 3]
        fields += [0] * (36 - len(fields)) + [core, 0]
        return f"{thread} (a ) b (c) " + " ".join(map(str, fields))

    for thread, spent, core in ((pid, ticks, processor), *threads):
        task = f"proc/{pid}/task/{thread}"
        sketch.file(f"{task}/stat", stat(thread, spent, core))
        sketch.file(f"{task}/children", children if thread == pid else "")
    total = ticks + gone + sum(spent for _, spent, _ in threads)
    sketch.file(f"proc/{pid}/stat", stat(pid, total, processor))
    for name in ("fd", "fdinfo"):
        (proc / name).mkdir(exist_ok=True)
    for number, (node, text) in enumerate(drm):
        link = proc / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(node)
        (proc / "fdinfo" / str(number)).write_text(text)


def card(folder, pci, **files):
    """Write a card of DRM's."""
    (folder / "sys/bus/pci/devices" / pci / "drm/card0").mkdir(parents=True, exist_ok=True)
    Sketch(folder).pci(pci, **files)


def cpu(index):
    return Binding(f"dev{index}", Device(f"cpu:{index}", Kind.CPU, DeviceRef(Kind.CPU, index), "",
                   "numpy", cores=(index,)))  # fmt: skip


def gpu(pci, kind=Kind.OPENCL, **more):
    return Binding("gpu", Device(f"{kind}:{pci}", kind, DeviceRef(kind, 0), "", "x", pci, **more))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self):
        return self.now


class Seen:
    """A watch of a tree whose files the test writes between two looks, a second apart."""

    def __init__(self, root, bindings, library=None):
        self.root, self.bindings, self.clock = root, bindings, Clock()
        self.watch = Watch(bindings, root=str(root), clock=self.clock, library=library)
        self.watch.add(100, None)

    def look(self, **process):
        tree(self.root, **process)
        self.clock.now += 1.0
        self.watch.look()

    def uses(self):
        self.watch.end()
        return {use.name: use for use in self.watch.uses()}


def ended(seen, seconds, *, lived=0.05, **process):
    """Let the process end after its last look, and be waited for."""
    tree(seen.root, state="Z", **process)
    seen.clock.now += lived
    seen.watch.last(100)
    seen.watch.reaped(100, seconds)
    return {name: (use.verdict, use.why) for name, use in seen.uses().items()}
