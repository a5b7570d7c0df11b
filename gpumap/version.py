"""The version: a constant, so that `gpumap --version` reads no package metadata."""

__version__ = "0.2.0"
