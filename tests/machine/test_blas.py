"""The arithmetic peak of a core, by a loop that is assembled here and really run."""

import shutil
import subprocess

import pytest

from gpumap.machine import blas
from gpumap.machine.blas import _assembled, peak, vectors

LOOPS = [(64, 4, "zmm", "ps"), (64, 8, "zmm", "pd"), (32, 4, "ymm", "ps"), (32, 8, "ymm", "pd")]


@pytest.fixture
def wide():
    found = vectors()
    if found is None:
        pytest.skip("no x86-64 with AVX2 or AVX-512 under Linux")
    return found


@pytest.mark.parametrize(("nbytes", "itemsize", "register", "suffix"), LOOPS)
def test_the_machine_code_is_what_it_is_meant_to_be(tmp_path, nbytes, itemsize, register, suffix):
    """As another program reads it: loads, multiply-adds of twelve sums, a loop, the end."""
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed (Debian: apt-get install binutils)")
    (tmp_path / "code").write_bytes(_assembled(nbytes, itemsize))
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", "code"]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.partition("\t")[2].split() for line in listed.stdout.splitlines() if "\t" in line]
    loads, sums, end = lines[:14], lines[14:-4], lines[-4:]
    assert [["vmovups", f"{n * nbytes:#x}(%rsi),%{register}{n}"] for n in range(14)] == loads
    assert [
        [f"vfmadd231{suffix}", f"%{register}13,%{register}12,%{register}{n % 12}"]
        for n in range(12 * 8)
    ] == sums
    assert [line[0] for line in end] == ["dec", "jne", "vzeroupper", "ret"]
    assert int(end[1][1], 16) == int(
        listed.stdout.split("vfmadd")[0].split("\n")[-1].split(":")[0], 16
    )


def test_a_double_takes_twice_the_room(wide):
    """So its rate is half: the loop really counts what it does, whatever the machine's speed."""
    for _ in range(50):  # a clock may change, or other work come, between the two
        ratio = peak(4) / peak(8)
        if 1.8 < ratio < 2.2:
            return
    pytest.fail(f"float32 over float64 is {ratio:.2f} on {wide.name}")


def test_elsewhere_it_is_not_known(monkeypatch, wide):
    """Nor where SELinux answers the mapping with a refusal."""
    del wide

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    blas._loop.cache_clear()
    with monkeypatch.context() as forbidden:
        forbidden.setattr(blas.mmap, "mmap", refuse)
        assert peak(4) is None
    blas._loop.cache_clear()
    for machine, system in (("aarch64", "Linux"), ("x86_64", "Darwin")):
        monkeypatch.setattr(blas.platform, "machine", lambda name=machine: name)
        monkeypatch.setattr(blas.platform, "system", lambda name=system: name)
        assert peak(4) is None
