"""Device code as data: texts in this folder, each with a NumPy reference in `table`."""
