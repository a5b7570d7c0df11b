"""What data-parallel programs share: how a batch is split, and how its results are exchanged."""
