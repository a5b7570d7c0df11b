"""Scripted devices: exact times on a clock of their own, and faults on demand."""
