"""A backend over a framework: a library whose import alone takes seconds, and may never end."""

from __future__ import annotations

from gpumap.backends.probe import ProbedBackend
from gpumap.extras import install, pip


class FrameworkBackend(ProbedBackend):
    """A backend that is called as its library, its distribution and its extra are."""

    framework = True

    def install(self) -> str:
        """Return the line that installs the framework."""
        return install(self.name)

    def repair(self, error: Exception) -> str:
        """Return what to do about an error of the framework: to install it, or anew."""
        if isinstance(error, ModuleNotFoundError):
            return self.install()
        again = pip("install", "--force-reinstall", self.name)  # else pip leaves it as it is
        return f"{again}; or see the variables that it reads"
