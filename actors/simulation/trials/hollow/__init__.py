"""Simulation trials of the hollow nodes, their kubelets and the scheduler."""
