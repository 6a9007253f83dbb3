"""A whole cluster in one thread, on virtual time. Read cluster.py first.

processes: what runs in it, crashes and comes back. calendar: planned faults that begin at one time and end at another.
"""

from kcm.actors.simulation.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
