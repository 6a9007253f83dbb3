"""Trials of the controllers of service accounts, of ClusterRoles, and of what clients trust the API server by."""
