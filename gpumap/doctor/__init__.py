"""Diagnose whether each device is used: known causes compared with what was read and measured."""
