"""Planned faults in a running system (live), and what faults write into a cluster, be it real or simulated (writes)."""
