"""Controllers of nodes, and of pods that depend on the state of their node."""
