"""Simulation trials of the controllers of bootstrap tokens."""
