"""Simulation trials of the controllers of volumes."""
