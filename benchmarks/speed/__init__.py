"""gpumap beside what a user would otherwise trust, in one run: `make speed`."""
