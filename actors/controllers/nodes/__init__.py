"""Controllers of nodes, and of pods for the sake of the nodes they are on."""
