"""Two hosts on one machine: network namespaces with a link between them, and names of their own."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ADDRESSES = ("10.77.0.1", "10.77.0.2")
# mpirun calls it in place of ssh
AGENT = """\
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


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


@contextmanager
def two_hosts(folder):
    """Make two hosts; skips where no namespace can be made."""
    if sys.platform != "linux" or not shutil.which("ip") or os.geteuid():
        pytest.skip("two hosts need root and ip: apt-get install iproute2")
    mark = os.getpid()
    agent = folder / "agent"
    agent.write_text(AGENT)
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
