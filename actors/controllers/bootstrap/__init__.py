"""Controllers of bootstrap tokens, with which joining nodes and the cluster authenticate each other."""
