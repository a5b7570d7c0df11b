"""`gpumap exec`: a rank takes its entry of the map, and becomes its command.

The reports that some name are those of docs/run.md.
"""

import os
import signal
import sys
from pathlib import Path

import click
import pytest
from flat_report import loads
from ranks import ALLOWED, SHOW, two_cores
from scripts import script
from shell import ended
from tables import table

from gpumap import cli
from gpumap.app.execute import otherwise
from gpumap.app.given_map import Where
from gpumap.app.own_entry import ExecRequest
from gpumap.app.shortcut import plain
from gpumap.launch.placement import Place
from gpumap.model import Device, DeviceRef, Kind

TABLE = table(__file__)
PYTHON = sys.executable
UUIDS = [f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in range(8)]
FOUR = ";".join(f"dev{n}->cuda{n}" for n in range(4))


def launched(by, local, count, *, rank=None, size=None):
    """Return the variables of a rank as its launcher sets them."""
    numbers = {"rank": local if rank is None else rank, "size": size or count,
               "local": local, "count": count}  # fmt: skip
    return {name: text.format(**numbers) for name, text in TABLE["launchers"][by].items()}


@pytest.fixture
def node(gpumap):
    """A node of eight GPUs, and a folder in which its ranks can meet."""
    gpumap.env["XDG_RUNTIME_DIR"] = str(gpumap.folder)
    pci = [f"0000:{n + 1:02x}:00.0" for n in range(8)]
    return gpumap.fake(script(*({"uuid": UUIDS[n], "pci": pci[n]} for n in range(8))))


def become(gpumap, *words, **env):
    """Return the variables and the cores of a command, and what gpumap has said."""
    answer = gpumap("exec", *words, "--", PYTHON, "-c", SHOW, **env)
    assert answer.code == 0, answer.err
    return loads(answer.out), answer.err


def refused(gpumap, *words, **env):
    """Return the exit code and what was said of a command that must not start."""
    answer = gpumap("exec", *words, "--", "touch", "started", **env)
    assert not (gpumap.folder / "started").exists()
    assert answer.out == ""
    return answer.code, answer.err


@pytest.mark.parametrize("local", [0, 3])
@pytest.mark.parametrize("by", TABLE["launchers"])
def test_each_rank_is_left_the_gpu_of_its_entry_before_its_program_starts(node, by, local):
    """openai/gpt-oss 266, tritonbench 869: by the local rank, whatever the rank among all is."""
    given = launched(by, local, 4, rank=4 + local, size=8)
    found, said = become(node, FOUR, **given)
    assert {name: found[name] for name in given} == given  # the launcher's own numbers stay
    assert "MASTER_ADDR" not in found  # which is of the launcher alone
    assert found["CUDA_VISIBLE_DEVICES"] == UUIDS[local]
    assert found["GPUMAP_CONTEXTS"] == f"dev{local}->cuda@{UUIDS[local]}"
    assert said == ""


@pytest.mark.parametrize("outer", ["Slurm", "Open MPI", "Flux", "MPICH"])
def test_torchrun_is_the_launcher_whoever_has_started_it(node, outer):
    """One torchrun on each node, by srun for example: the numbers of its workers count."""
    given = launched(outer, 0, 1, rank=1, size=2) | launched("torchrun", 2, 4, rank=6, size=8)
    assert become(node, FOUR, **given)[0]["GPUMAP_NAME"] == "dev2"


@pytest.mark.parametrize("local", [0, 1])
def test_indices_count_what_the_job_has(node, local):
    """Report jax 23452: a job with two of eight GPUs; what is set names a UUID."""
    given = launched("Slurm", local, 2) | {"CUDA_VISIBLE_DEVICES": "2,3"}
    found, _ = become(node, "a->cuda0;b->cuda1", **given)
    assert found["CUDA_VISIBLE_DEVICES"] == UUIDS[2 + local]


@pytest.mark.parametrize("by", ["Slurm", "Open MPI"])
def test_a_rank_keeps_the_one_gpu_that_its_launcher_has_given_it(node, by):
    """Reports mace 435, meld 114: by its identity; an index is taken as what is there, and said."""
    given = launched(by, 2, 4) | {"CUDA_VISIBLE_DEVICES": "6"}
    known = ";".join(f"dev{n}->cuda@{UUIDS[4 + n]}" for n in range(4))
    for map_ in (known, FOUR):
        start = together(node, map_, by, "4567")
        assert [answer.code for answer in start] == [0, 0, 0, 0]
        assert [loads(a.out)["CUDA_VISIBLE_DEVICES"] for a in start] == UUIDS[4:]
    assert f"{by} has left local rank 2 cuda@{UUIDS[6]} alone" in start[2].err
    assert "it is taken as dev2->cuda2" in start[2].err
    code, said = refused(node, f"a->cuda0;b->cuda1;dev2->cuda@{UUIDS[5]};d->cuda3", **given)
    assert code == 3
    assert f"dev2: cuda@{UUIDS[5]} is not visible: {by} has left local rank 2" in said


def together(gpumap, map_, by, visible):
    """Run all ranks of a node at once, each with its own CUDA_VISIBLE_DEVICES."""
    command = [gpumap.command, "exec", map_, "--", PYTHON, "-c", SHOW]
    ranks = []
    for local, text in enumerate(visible):
        env = launched(by, local, len(visible)) | {"CUDA_VISIBLE_DEVICES": text}
        ranks.append(gpumap.start(command, env))
    return [ended(process) for process in ranks]


def test_two_ranks_with_one_gpu_end_both_and_say_who(node):
    for answer in together(node, "a->cuda0;b->cuda1", "Slurm", "55"):
        assert (answer.code, answer.out) == (3, "")
        assert "local rank 0 (a->cuda0, process " in answer.err
        assert "and local rank 1 (b->cuda1, process " in answer.err
        assert f"have one device: {UUIDS[5]}" in answer.err


def test_of_amds_two_variables_one_is_left(node):
    """DeepSpeed 3165: HIP's counts within ROCR's, so that both together hide too much."""
    node.fake(script(*({"ref": f"rocm{n}"} for n in range(8))))
    given = {"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "2,0"}
    found, _ = become(node, "a->rocm0;b->rocm1", **launched("torchrun", 1, 2), **given)
    assert found["ROCR_VISIBLE_DEVICES"] == "4"
    assert "HIP_VISIBLE_DEVICES" not in found
    assert found["GPUMAP_CONTEXTS"] == "b->rocm0"


@pytest.mark.parametrize(("map_", "count", "said"), TABLE["ranks_and_names"])
def test_more_or_fewer_ranks_than_entries_start_nothing(node, map_, count, said):
    for local in range(min(count, 2)):
        env = launched("torchrun", local, count) | {"CUDA_VISIBLE_DEVICES": "2,3"}
        code, error = refused(node, map_, **env)
        assert code == 2
        assert f"error: {said.replace('HOST', os.uname().nodename)}\n  fix: start " in error


@two_cores
def test_a_name_takes_its_entry_without_a_rank_and_no_process_is_between(gpumap):
    """The command has the process, the cores and the entry that is true inside."""
    process = gpumap.start([gpumap.command, "exec", "a->cpu0;b->cpu1", "--name", "b", "--",
                            PYTHON, "-c", SHOW])  # fmt: skip
    found = loads(ended(process).out)
    assert (found["process"], found["cores"]) == (process.pid, [ALLOWED[1]])
    assert (found["GPUMAP_NAME"], found["GPUMAP_CONTEXTS"]) == ("b", "b->cpu0")
    assert (found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"]) == ("1", "")
    assert "RANK" not in found
    unbound, _ = become(gpumap, "a->cpu0;b->cpu1", "--name=b", "--no-bind")
    assert unbound["cores"] == ALLOWED


def test_in_a_run_a_process_takes_the_entry_that_the_run_gave_it(gpumap):
    """The run still knows it by its own variable."""
    code = "import os; print(os.environ['GPUMAP_NAME'], len(os.environ['GPUMAP_RUN']))"
    inner = (gpumap.command, "exec", "--", PYTHON, "-c", code)
    answer = gpumap("run", "--quiet", "a->cpu0;b->cpu0", "--", *inner)
    assert (answer.code, sorted(answer.out.splitlines())) == (0, ["[a] a 32", "[b] b 32"])


def test_the_command_has_the_signals_of_a_shells_command(gpumap):
    """Python ignores SIGPIPE and SIGXFSZ, which the command must not inherit; others stay."""
    status = "/proc/self/status"
    answer = gpumap("exec", "a->cpu0", "--name", "a", "--", "grep", "SigIgn", status)
    own = next(line for line in Path(status).read_text().splitlines() if "SigIgn" in line)
    pythons = sum(1 << (number - 1) for number in (signal.SIGPIPE, signal.SIGXFSZ))
    assert int(answer.out.split()[1], 16) == int(own.split()[1], 16) & ~pythons


def test_a_gpu_that_no_variable_hides_the_others_of_is_not_verified(node):
    """A driver that tells no UUID. The one entry of a map needs no rank, verified or not."""
    node.fake(script({"pci": "0000:01:00.0"}, {"pci": "0000:02:00.0"}))
    code, said = refused(node, "a->cuda1", "--verify")
    assert code == 3
    assert "shows cuda@0000:01:00.0, cuda@0000:02:00.0\n  fix: omit --verify" in said
    found, _ = become(node, "a->cuda1")
    assert (found["GPUMAP_NAME"], found["GPUMAP_CONTEXTS"]) == ("a", "a->cuda@0000:02:00.0")


def test_a_device_without_an_identity_may_be_another_one(node):
    """Both GPUs of AMD are alike to who reads them back. It is said without a launcher, too."""
    said = become(node, FOUR, "--name", "dev1", "--verify")[1]
    assert said.startswith(f"verified: dev1 is cuda@{UUIDS[1]}, ")
    node.fake(script({"ref": "rocm0"}, {"ref": "rocm1"}))
    said = become(node, "a->rocm1", "--verify")[1]
    assert "warning: a: its driver shows one device and no identity" in said


def test_a_full_disk_is_no_place_to_meet(node):
    """A limit on the size of files has the same end: the system does not write the claim."""
    command = 'ulimit -f 0; exec "$@"'
    env = launched("torchrun", 0, 1)
    words = ["exec", "a->cuda0", "--verify", "--", "touch", "started"]
    answer = node.run(["sh", "-c", command, "sh", node.command, *words], **env)
    assert (answer.code, (node.folder / "started").exists()) == (2, False), answer.err
    assert "the ranks of this node cannot meet in " in answer.err
    assert "\n  fix: let XDG_RUNTIME_DIR name a folder" in answer.err


def test_a_driver_that_shows_other_devices_is_a_contradiction():
    ref = DeviceRef(Kind.CUDA, 0)
    one, other = (Device(f"cuda:{n}", Kind.CUDA, ref, "x", "fake", uuid=UUIDS[n]) for n in (0, 1))
    place = Place("a", one, None, (), 1, "")
    assert otherwise(place, [one]) is None
    assert otherwise(place, [one, other]).endswith(f"shows cuda@{UUIDS[0]}, cuda@{UUIDS[1]}")
    assert otherwise(place, [other]).endswith(f"alone, and its driver shows cuda@{UUIDS[1]}")
    assert otherwise(place, []).endswith("shows none")


@pytest.mark.parametrize("words", TABLE["plain"], ids=str)
def test_what_is_read_without_click_is_what_click_reads(words):
    """Each option that may be read so is in one of the cases."""
    command = cli.group.get_command(click.Context(cli.group), "exec")
    params = command.make_context("exec", [*words], obj=None).params
    where = Where(*(params.pop(field) for field in Where._fields))
    assert plain(words, {}) == ExecRequest(where, **params)


@pytest.mark.parametrize("words", TABLE["for_click"], ids=str)
def test_what_is_not_plain_is_left_to_click(words):
    assert plain(words, {}) is None
    assert plain([], {"GPUMAP_QUIET": "1"}) is None
    assert plain([], {"GPUMAP_BACKEND": "fake"}) == ExecRequest(Where(backend="fake"))


def test_to_become_a_command_loads_neither_click_nor_numpy(gpumap):
    command = [PYTHON, "-X", "importtime", "-m", "gpumap", "exec", "a->cpu0", "--name", "a"]
    loaded = gpumap.run([*command, "--", "true"]).err
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in loaded.splitlines()}
    assert "msgspec" in names
    assert {"click", "numpy", "psutil", "rich"} & names == set()
