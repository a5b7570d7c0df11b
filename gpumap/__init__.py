"""gpumap: name your devices once, prove what they give you."""

from gpumap.version import __version__

__all__ = ["__version__"]
