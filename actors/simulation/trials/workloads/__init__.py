"""Trials of the workload controllers."""
