"""Communicators: what carries the slices of a schedule from rank to rank."""
