"""The user's cache folder: GPUMAP_CACHE_DIR, else gpumap in XDG_CACHE_HOME or ~/.cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def folder(env: Mapping[str, str]) -> Path | None:
    """Return this user's cache folder; None where no variable names one."""
    if given := env.get("GPUMAP_CACHE_DIR"):
        return Path(given)
    xdg = env.get("XDG_CACHE_HOME", "")
    if xdg.startswith("/"):  # a relative one is to be ignored: XDG Base Directory, "Environment"
        return Path(xdg) / "gpumap"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "gpumap" if home.startswith("/") else None
