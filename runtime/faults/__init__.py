"""Fault injection in a running system: the simulator's faults (see vocabulary.py) on threads and in real time."""
