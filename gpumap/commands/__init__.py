"""One file per command: its options, one call, emit."""
