"""Simulation trials of the certificate controllers. Their key files have the same content in every run."""
