"""A whole cluster in one thread, on virtual time. Read cluster.py first.

processes: managers and hollow nodes, which can crash and be restarted.
calendar: planned faults with a fixed begin and end.
"""

from kcm.actors.simulation.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
