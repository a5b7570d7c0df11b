"""A backend over a framework: a library whose import alone takes seconds, and may never end."""

from __future__ import annotations

from abc import abstractmethod
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from gpumap.backends.probe import ProbedBackend, unloadable
from gpumap.extras import install, pip
from gpumap.model import replace

if TYPE_CHECKING:
    from gpumap.model import Probe


class FrameworkBackend(ProbedBackend):
    """A backend that is called as its library, its distribution and its extra are."""

    framework = True
    variables: tuple[str, ...] = ()  # that say what it does, and with which it may fail

    def probe(self) -> Probe:
        """Ask a child process; which build it is, its metadata tell where it does not answer."""
        found = super().probe()
        return found if found.version else replace(found, version=installed(self.name))

    def install(self) -> str:
        """Return the line that installs the framework."""
        return install(self.name)

    _error: Exception | None = None  # of its import: a second one would say something else

    def load(self) -> None:
        """Import the framework; what that raises is for `inventory`."""
        try:
            self.library()
        except Exception as error:  # noqa: BLE001 - a wheel or a plugin may raise anything
            self._error = error

    def inventory(self) -> Probe:
        """Ask the framework, in this process; `probe` calls it in the child."""
        if self._error is not None:
            again = pip("install", "--force-reinstall", self.name)  # else pip leaves it as it is
            return unloadable(self.name, self._error, self._repair(self._error, again))
        try:
            return self.found()
        except Exception as error:  # noqa: BLE001 - a wheel or a plugin may raise anything
            return unloadable(self.name, error, self._repair(error, self.install()))

    def _repair(self, error: Exception, otherwise: str) -> str:
        """Return what to do about an error of its import, or of its first answer."""
        if isinstance(error, ModuleNotFoundError):
            return self.install()
        given = [name for name in self.variables if self._host.env.get(name)]
        if given and not isinstance(error, ImportError):
            return f"unset {' '.join(given)}"
        return otherwise

    @abstractmethod
    def library(self) -> Any:
        """Import the framework, set as gpumap needs it; raises what that does."""

    @abstractmethod
    def found(self) -> Probe:
        """Import the framework and return what it finds; raises what it does."""


def installed(distribution: str) -> str | None:
    """Return the version that is installed, with the tag of its build: "2.13.0+cpu"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
