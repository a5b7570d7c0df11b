"""Device code as data: texts in this folder, each with a NumPy reference in `table`."""

COUNTS = 1 << 31  # elements that one call may count, so that no counter ever runs over
