"""Trials of the controllers of service accounts, ClusterRoles, and the CA certificates that clients trust."""
