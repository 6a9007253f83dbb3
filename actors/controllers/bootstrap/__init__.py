"""Controllers of bootstrap tokens: by them a machine that joins knows the cluster, and the cluster the machine."""
