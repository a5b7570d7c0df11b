"""PyTorch's backend on the host's cores."""

import os
import subprocess
import sys

import numpy as np
import pytest
from backends.frameworks import MACHINE, needs
from buffers import got, sent
from flat_report import loads
from sessions import opened
from tables import table

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.third_party import TABLE, outcome
from gpumap.errors import DeviceError, DeviceLost, OutOfMemory
from gpumap.model import Kind

pytestmark = needs("torch")
TEXTS = table(__file__)


def test_cores_are_those_of_numpy_by_identity():
    """One hardware, whoever drives it; each says how its products are."""
    ours, others = (load(name, Host(dict(os.environ), MACHINE)).probe().devices
                    for name in ("torch", "numpy"))  # fmt: skip
    cores = [device for device in ours if device.kind is Kind.CPU]
    assert [(d.ref, d.hardware) for d in cores] == [(d.ref, d.hardware) for d in others]
    assert {d.facts["float32_products"] for d in ours} == {"ieee"}
    assert {d.facts["reduced_precision_sums"] for d in ours} == {False}


def test_each_worker_has_one_thread_and_its_core():
    """PyTorch would take all cores for one product; when the session ends, so does the limit."""
    import torch

    before, seen = torch.__config__.parallel_info(), []
    with opened("torch") as (session,):
        for worker in session._workers:
            worker.put(lambda: seen.append((torch.get_num_threads(), os.sched_getaffinity(0))))
        session.synchronize()
        assert seen == [(1, {core}) for core in session.device.cores]
    assert torch.__config__.parallel_info() == before  # MKL's, too


@pytest.mark.parametrize("before", TEXTS["before"])
def test_products_are_ieee_whatever_was_set_before(before):
    """By either switch, or by the environment; who reads the old one afterwards still can."""
    code = TEXTS["settled"].format(before=before)
    env = {**os.environ, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, check=True,
                          capture_output=True, text=True)  # fmt: skip
    ieee, tf32 = (
        str({"float32_products": word, "reduced_precision_sums": False})
        for word in ("ieee", "tf32")
    )
    assert done.stdout.splitlines() == [ieee, tf32, ieee]


def test_errors_of_torch_are_errors_of_gpumaps():
    """By class where it has one, by CUDA's number where it has that."""
    import torch

    assert all(hasattr(torch, name[6:]) for name in TABLE if name.startswith("torch."))
    assert outcome(torch.OutOfMemoryError("full")).error is OutOfMemory
    for number, meaning in ((2, OutOfMemory), (700, DeviceLost), (1, DeviceError)):
        error = torch.AcceleratorError("it failed")
        error.error_code = number
        assert outcome(error).error is meaning


def test_a_read_only_source_is_copied_without_a_warning():
    """PyTorch has no read-only tensors; rows of other matrices are copied as they lie."""
    array = np.arange(12, dtype="float32").reshape(3, 4)
    array.flags.writeable = False
    wide = np.zeros((3, 8), "float32")
    with opened("torch") as (session,):
        buffer = sent(session, array)
        session.download(buffer, wide[:, 4:])
        session.synchronize()
        assert (wide[:, 4:] == got(buffer)).all()
        session.upload(wide[:, 4:], buffer)
        assert (got(buffer) == array).all()


@pytest.mark.skipif(len(MACHINE.cpus) == 1, reason="a core is left over only where there are two")
def test_a_core_that_two_backends_list_is_left_unused_once(gpumap):
    done = gpumap("bench", "dot", "a->cpu0", "--backend", "torch,numpy", "--dry-run",
                  "--format", "json")  # fmt: skip
    notes = loads(done.out)["map"]["notes"]
    (unused,) = (note["message"] for note in notes if note["code"] == "unused")
    names = unused.rpartition(": ")[2].split(", ")
    assert len(names) == len({*names})


def test_a_chain_in_one_piece_is_none_of_pytorchs(gpumap):
    done = gpumap("bench", "chain", "a->cpu0", "--backend", "torch")
    assert "torch has no chain in one kernel" in done.err
