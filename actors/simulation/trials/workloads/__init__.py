"""Simulation trials of the workload controllers."""
