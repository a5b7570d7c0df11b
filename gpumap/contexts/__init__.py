"""The Python API: arrays on named devices, placed by one rule, with every transfer in the trace."""
