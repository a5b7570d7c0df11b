"""Verdicts, causes and headlines: pure functions of a report."""
