"""Controllers of service accounts and their tokens, of aggregated ClusterRoles, and of published root certificates."""
