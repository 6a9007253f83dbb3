"""Controllers of service accounts and their tokens, of ClusterRoles, and of the published root certificates."""
