"""CUDA devices, driven by CuPy."""
