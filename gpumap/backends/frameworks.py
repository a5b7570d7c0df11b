"""A backend over a framework: a library whose import alone takes seconds, and may never end."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from gpumap.backends.probe import ProbedBackend, unloadable
from gpumap.extras import install, pip

if TYPE_CHECKING:
    from gpumap.model import Probe


class FrameworkBackend(ProbedBackend):
    """A backend that is called as its library, its distribution and its extra are."""

    framework = True

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
        error = self._error
        if error is None:
            try:
                return self.found()
            except Exception as raised:  # noqa: BLE001 - a wheel or a plugin may raise anything
                error = raised
        if isinstance(error, ModuleNotFoundError):
            return unloadable(self.name, error, self.install())
        again = pip("install", "--force-reinstall", self.name)  # else pip leaves it as it is
        return unloadable(self.name, error, f"{again}; or see the variables that it reads")

    @abstractmethod
    def library(self) -> Any:
        """Import the framework, set as gpumap needs it; raises what that does."""

    @abstractmethod
    def found(self) -> Probe:
        """Import the framework and return what it finds; raises what it does."""
