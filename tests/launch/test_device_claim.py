"""A device is claimed once in a job: by a process, whatever program it becomes, to its end."""

import os
import subprocess
import sys

from refusals import refusal

from gpumap.errors import BusyError
from gpumap.launch.device_claim import claim

# A rank that claims a device and becomes another program, which lives until its stdin is closed.
RANK = """
import os, sys
from gpumap.launch.device_claim import claim
claim(*sys.argv[1:])
os.execvp("sh", ["sh", "-c", "echo left; read line"])
"""


def test_a_claim_is_one_jobs_and_lasts_as_long_as_its_process():
    job = f"job of {os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", RANK, job, "GPU-0"], stdin=-1, stdout=-1) as rank:
        assert rank.stdout.readline() == b"left\n"
        told = refusal(BusyError, claim, job, "GPU-0")
        assert told.message == f"process {rank.pid} of this job has the device GPU-0, too"
        claim(f"another {job}", "GPU-0")
        for _ in range(2):  # what it has is no other's
            claim(job, "GPU-1")
    claim(job, "GPU-0")
