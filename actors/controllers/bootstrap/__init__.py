"""Controllers of bootstrap tokens, which authenticate a joining node and the cluster to each other."""
