"""Simulation trials of the controllers of devices."""
