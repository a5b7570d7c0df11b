"""Cores of the host as devices, driven by NumPy."""
