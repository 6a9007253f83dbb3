"""Fault plans in a running system (live.py), and their writes to a real or simulated cluster (writes.py)."""
