"""Faults in a running system: the simulator's vocabulary (runtime/simulation/faults.py), on threads and real time."""
