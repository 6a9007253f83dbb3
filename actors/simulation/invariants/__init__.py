"""Invariants: properties checked in every run of the simulator, whatever faults are injected."""
