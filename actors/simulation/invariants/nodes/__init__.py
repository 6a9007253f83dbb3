"""Invariants of node failures and evictions."""
