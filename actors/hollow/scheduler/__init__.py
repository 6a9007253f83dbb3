"""Scheduler of the hollow cluster."""
