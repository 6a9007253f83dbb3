"""Invariants that every run checks, whatever its controllers are."""
