"""Ranks on two hosts: what they measure is one report, and a link that is cut ends it, named.

The hosts are network namespaces of one machine, with a link between them and names of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from backends.frameworks import needs
from commands.ranks import needs_mpi
from flat_report import loads
from mpi_jobs import MPIRUN, ended, started
from shell import timely
from tables import table
from test_comm_torch import measuring

ADDRESSES = ("10.77.0.1", "10.77.0.2")
LIMIT = 60  # seconds of a run whose link is cut: ranks must measure before
GIVEN = ("bench", "allreduce", "--map", "a->cpu0", "--sizes", "4KiB,1MiB")


@dataclass(frozen=True)
class Hosts:
    names: tuple[str, str]
    interfaces: tuple[str, str]
    agent: Path

    def on(self, place, *command):
        inside = ("ip", "netns", "exec", self.names[place], "unshare", "--uts", "sh", "-c")
        return (*inside, 'hostname "$0"; exec "$@"', self.names[place], *command)

    def cut(self):
        self._ip("-n", self.names[0], "link", "set", self.interfaces[0], "down")

    def processes(self):
        return [pid for name in self.names for pid in self._ip("netns", "pids", name).split()]

    def make(self):
        one, other = self.interfaces
        for name in self.names:
            self._ip("netns", "add", name)
        self._ip("link", "add", one, "type", "veth", "peer", "name", other)
        for name, link, address in zip(self.names, self.interfaces, ADDRESSES, strict=True):
            self._ip("link", "set", link, "netns", name)
            self._ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            for each in (link, "lo"):
                self._ip("-n", name, "link", "set", each, "up")

    def remove(self):
        for name in self.names:
            self._ip("netns", "del", name, check=False)

    @staticmethod
    def _ip(*words, check=True):
        done = subprocess.run(
            ["ip", *words], check=check, capture_output=True, text=True, timeout=20
        )
        return done.stdout


@pytest.fixture
def hosts(gpumap):
    """Make two hosts on this machine, or skip where no namespace can be made."""
    if sys.platform != "linux" or not shutil.which("ip") or os.geteuid():
        pytest.skip("two hosts need root and ip: apt-get install iproute2")
    mark = os.getpid()
    agent = gpumap.folder / "agent"
    agent.write_text(table(__file__)["agent"])
    agent.chmod(0o755)
    hosts = Hosts((f"gm{mark}a", f"gm{mark}b"), (f"v{mark}a", f"v{mark}b"), agent)
    try:
        try:
            hosts.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()


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
