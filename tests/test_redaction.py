"""What `gpumap env` may show strangers: no host, user, path, serial number or token; all else."""

import pytest
from tables import table

from gpumap.redaction import KINDS, Redaction

ENV = {"HOME": "/home/jdoe", "USER": "jdoe", "LOGNAME": "jane.doe", "SUDO_USER": "root"}
HOSTS = {"node17.hpc.example", "node17"}
PLANTED = table(__file__)
EVERY = [(kind, each, text) for kind, found in PLANTED.items() for each, text in found.items()]


def test_as_many_are_planted_as_are_claimed():
    assert len(EVERY) == 50


@pytest.mark.parametrize(("kind", "secret", "text"), EVERY)
def test_what_tells_whose_machine_it_is_goes(kind, secret, text):
    shown = Redaction(ENV, HOSTS).text(text.format(secret))
    assert secret not in shown
    assert f"<{kind[:-1]}>" in shown


@pytest.mark.parametrize(("kind", "secret", "text"), EVERY)
def test_a_kind_that_is_kept_stays_alone(kind, secret, text):
    """Which other kinds a text has too are taken out of it all the same; a token is never kept."""
    written = text.format(secret)
    assert (secret in Redaction(ENV, HOSTS, KINDS).text(written)) == (kind != "tokens")
    assert secret not in Redaction(ENV, HOSTS, set(KINDS) - {kind}).text(written)


@pytest.mark.parametrize("text", [
    "NVIDIA H100 80GB HBM3, 0000:17:00.0, GPU-8f3c1d2e-77aa-4b0c-9d11-0123456789ab",
    "OpenBLAS 0.3.31.188.0 for SkylakeX, driver 535.104.05, oneAPI 2024.1.0.963",
    "pthread-skylake-avx512-AMD EPYC 7763 64-Core Processor",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1: cannot open shared object file",
    "/opt/rocm-6.2/lib/libamdhip64.so", "/etc/OpenCL/vendors", "nvidia-cublas-cu12==12.4.5.8",
    "No module named 'scipy.io'", "threading.local", "serial: 98.2 s", "12:30:45", "std::array",
    "https://download.pytorch.org/whl/cu130", "x.cpython-311-x86_64-linux-gnu.so",
    "--xla_force_host_platform_device_count=4 --xla_cpu_enable_fast_math=false",
    "expandable_segments:True,max_split_size_mb:128", "PCI:0000:09:00.0", "1.2.3.4", "2:1,3:0",
    "install CuPy: pip install 'cupy-cuda12x>=13.0'", "dev0->cuda0;dev1->opencl0:1",
])  # fmt: skip
def test_what_tells_how_a_machine_is_set_up_stays(text):
    assert Redaction(ENV, HOSTS).text(text) == text


@pytest.mark.parametrize(("text", "gone"), [
    ('{"password": "hunter2"}', "hunter2"), ("PGPASSWORD=hunter2", "hunter2"),
    ("passphrase='correct horse battery'", "horse"), ("WANDB_KEY=abc12", "abc12"),
    ("--token abc12 --x", "abc12"), ("Authorization: Basic YWxpY2U6cGFzcw==", "YWxp"),
    ("redis://:secretpw@redis:6379/0", "secretpw"), ("sk_live_4eC39HqLyjWDarjt", "4eC39"),
    ("node18.hpc.uni-x.de", "node18"), ("gpu-07.prod.mycorp.co.uk", "mycorp"),
    ("2001:db8:85a3::8a2e:370:7334", "85a3"), ("MASTER_ADDR=node18", "node18"), ("~bob/lib", "bob"),
])  # fmt: skip
def test_other_forms_of_secrets_go(text, gone):
    assert gone not in Redaction(ENV, HOSTS).text(text)


def test_a_name_that_is_a_word_of_gpumap_is_no_secret():
    """Else a user called nvidia would have a file that no one can read."""
    shown = Redaction({"USER": "nvidia", "LOGNAME": "numpy"}, {"cpu"})
    assert shown.text("NVIDIA driver, numpy on cpu") == "NVIDIA driver, numpy on cpu"
    tree = {"kind": "jdoe", "backends": [{"name": "jdoe", "usable": True}], "name": "jdoe"}
    assert Redaction(ENV).tree(tree) == tree | {"name": "<user>"}


def test_a_report_is_taken_apart_key_by_key():
    """A key that names a serial number hides whatever stands there, numbers too."""
    tree = {"facts": {"serial": 77, "board_serial": "x"}, "n": [1, None, "by jdoe"]}
    hidden = {"facts": {"serial": "<serial>", "board_serial": "<serial>"}}
    assert Redaction(ENV, HOSTS).tree(tree) == hidden | {"n": [1, None, "by <user>"]}
    assert Redaction(ENV, HOSTS, KINDS).tree(tree) == tree
