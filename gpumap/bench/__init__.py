"""Benchmarks: one file each, and the runner that measures them all in the same way."""
