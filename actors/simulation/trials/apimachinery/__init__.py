"""Simulation trials of the controllers that handle objects of any kind."""
