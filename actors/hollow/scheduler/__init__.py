"""Scheduler of the hollow cluster. Read reconciler.py first.

spec.py, watches.py          the controller, and the pods that each change enqueues
snapshot.py, node_fit.py     nodes, and whether a pod fits a node
search.py, filters.py        search for the node of a pod
demand.py, pod_terms.py, neighbours.py
                             requirements of a pod, also about other pods
placements.py                nodes of all scheduled pods, and the resources in use
unschedulable.py             pods that wait for another attempt
preemptor.py, preemption.py  preemption of pods of lower priority
volumes.py, volume_limits.py PersistentVolumeClaims of pods
devices/                     ResourceClaims of pods
"""
