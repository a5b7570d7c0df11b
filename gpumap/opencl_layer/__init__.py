"""Count what any OpenCL program does, from inside it: kernels, bytes each way, waits, per device.

A layer in C (layer.c) is built with the system's compiler into gpumap's cache, and loaded into the
program by its own OpenCL loader (OPENCL_LAYERS). It counts into one mapped file per process, which
is whole also when the program crashes or is killed. To count the processes of a command:

    found = environment(folder, env, times=False)    # variables to add, or a NoLayer: why not
    ...                                              # run it; now and then, for each process:
    how = sight(pid, folder)                         # a code: counted, or what hides it (MEANING)
    reading = read(folder)                           # during the run or after it

A process with a file is counted (`CountedProcess`): a device that it lists with no kernel, or does
not list, was not used, if `complete`. A process without a file used no OpenCL where its last sight
is in UNUSED. In every other case whether it used a device cannot be told: never "not used".
"""

from gpumap.opencl_layer.build import NoLayer, environment
from gpumap.opencl_layer.inside import MEANING, UNUSED, Sight, sight
from gpumap.opencl_layer.records import CountedDevice, CountedProcess, Counts, Reading, read

__all__ = [
    "MEANING", "UNUSED", "CountedDevice", "CountedProcess", "Counts", "NoLayer", "Reading", "Sight",
    "environment", "read", "sight",
]  # fmt: skip
