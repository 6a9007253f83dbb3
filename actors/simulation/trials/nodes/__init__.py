"""Simulation trials of the controllers of nodes."""
