"""Invariants of nodes and of evictions."""
