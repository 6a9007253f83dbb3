"""Invariants: conditions that every simulated run must meet, whatever faults are injected."""
