"""Simulated Kubernetes cluster in one thread, on virtual time. Read cluster.py first.

processes: managers and hollow nodes, which can crash and be restarted.
fault_schedule: planned faults with a fixed start and end.
"""

from kcm.actors.simulation.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
