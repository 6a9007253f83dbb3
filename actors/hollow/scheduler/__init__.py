"""The scheduler of the hollow cluster."""
