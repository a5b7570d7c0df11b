"""Training of networks by several workers: what is trained, by which rules, on which examples."""
