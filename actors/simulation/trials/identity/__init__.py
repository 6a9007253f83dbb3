"""Simulation trials of the controllers of service accounts, ClusterRoles and published CA certificates."""
