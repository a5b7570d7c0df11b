"""Exchanges between the ranks of a data-parallel program: schedules, transports, and costs."""
