"""Service accounts, their tokens, ClusterRoles, and the certificates by which clients know the API server."""
