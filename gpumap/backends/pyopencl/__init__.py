"""OpenCL devices, driven by PyOpenCL."""
