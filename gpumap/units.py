"""Quantities for people: SI base units inside, scaled and rounded only here."""

from __future__ import annotations

_SI = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))
_SMALL = (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12))
_BINARY = (("", 1), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40))


def memory(nbytes: int | None) -> str:
    """Return bytes in binary units, such as ``23.5 GiB``; a dash for what is unknown."""
    if nbytes is None:
        return "-"
    prefix, factor = next(((p, f) for p, f in reversed(_BINARY) if nbytes >= f), _BINARY[0])
    return f"{nbytes} B" if factor == 1 else f"{nbytes / factor:.1f} {prefix}B"
