"""Commands: the options of each, one call, emit."""
