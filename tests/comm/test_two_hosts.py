"""Ranks on two hosts: what they measure is one report, and a link that is cut ends it, named."""

import re
import sys

import pytest
from backends.frameworks import needs
from comm.two_hosts import ADDRESSES, two_hosts
from commands.ranks import needs_mpi
from flat_report import loads
from mpi_jobs import MPIRUN, ended, started
from shell import timely
from test_comm_torch import measuring

LIMIT = 60  # seconds of a run whose link is cut: ranks must measure before
GIVEN = ("bench", "allreduce", "--map", "a->cpu0", "--sizes", "4KiB,1MiB")


@pytest.fixture
def hosts(gpumap):
    with two_hosts(gpumap.folder) as made:
        yield made


def torchrun(gpumap, hosts, place, *arguments):
    nodes = ("--nnodes", "2", "--node-rank", str(place), "--nproc-per-node", "1")
    meet = ("--master-addr", ADDRESSES[0], "--master-port", "29501")
    command = (sys.executable, "-m", "torch.distributed.run", *nodes, *meet, "-m", "gpumap")
    env = {"GLOO_SOCKET_IFNAME": hosts.interfaces[place]}
    return started(gpumap, hosts.on(place, *command, *arguments), **env)


def assert_one_report(gpumap, hosts, out):
    report = loads((gpumap.folder / "report.json").read_text())
    assert [rank["host"] for rank in report["ranks"]] == list(hosts.names)
    rows = timely(report["measurements"])
    assert all(row["check"]["passed"] for row in rows)
    assert "2 ranks on 2 machines" in out


@needs_mpi
def test_mpirun_over_two_hosts_has_one_report(gpumap, hosts):
    """Both take the first name of their map, and are called by their nodes; every sum is right."""
    link = ("--mca", "btl_tcp_if_include", "10.77.0.0/24")
    meet = ("--mca", "oob_tcp_if_include", "10.77.0.0/24")
    agent = ("--mca", "plm_rsh_agent", str(hosts.agent))
    where = ("--host", ",".join(f"{name}:1" for name in hosts.names))
    command = (*MPIRUN, "2", *where, *agent, *link, *meet, sys.executable, "-m", "gpumap")
    given = (*GIVEN, "--budget", "4s", "--output", "report.json")
    code, out, err = ended(started(gpumap, hosts.on(0, *command, *given)))
    assert code in (0, 5), err
    assert_one_report(gpumap, hosts, out)


@needs("torch")
def test_torchrun_over_two_hosts_has_one_report(gpumap, hosts):
    given = (*GIVEN, "--budget", "10s", "--output", "report.json")
    other = torchrun(gpumap, hosts, 1, *given)
    code, out, err = ended(torchrun(gpumap, hosts, 0, *given))
    ended(other)
    assert code in (0, 1), err  # torchrun's own: 1 where gpumap's is another than 0
    assert_one_report(gpumap, hosts, out)


@needs("torch")
def test_a_link_that_is_cut_ends_the_run_within_its_limit(gpumap, hosts):
    """Whoever no longer answers is named with its host; on neither host is anything left."""
    given = (*GIVEN, "--budget", "60s", "--timeout", f"{LIMIT}s")
    first, other = (torchrun(gpumap, hosts, place, *given) for place in (0, 1))
    measuring(first.pid, 1)
    assert len(hosts.processes()) >= 4  # an agent and a rank on each
    hosts.cut()
    _, _, err = ended(first)
    ended(other)
    said = rf"time limit of {LIMIT} s was reached; no answer from {hosts.names[1]}/a \(rank 1"
    assert re.search(said, err), err
    assert hosts.processes() == []
