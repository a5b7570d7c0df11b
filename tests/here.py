"""This machine, as the tests look at it."""

import os

from gpumap.backends.base import Host
from gpumap.machine import topology

# Parameters of tests are devices, so all processes of a run must find the same ones: none may lose
# patience with a driver that is loaded for the first time, on a machine with other work.
HOST = Host(dict(os.environ), topology.read(), patience=100.0)  # seconds
