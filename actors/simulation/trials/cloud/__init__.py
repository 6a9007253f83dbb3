"""Simulation trials of the controllers that call a cloud provider."""
