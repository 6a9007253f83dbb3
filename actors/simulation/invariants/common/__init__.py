"""Invariants that are checked in every run."""
