"""What gpumap does: the use cases between the command line and the engine."""
