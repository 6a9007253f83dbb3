"""Invariants of workload controllers."""
