"""Simulation trials of the endpoint controllers."""
