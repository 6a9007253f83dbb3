"""Controllers of devices that pods claim (dynamic resource allocation)."""
