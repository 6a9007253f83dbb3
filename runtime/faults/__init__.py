"""Faults in a running system: the simulator's vocabulary (runtime/faults/vocabulary.py), on threads and real time."""
