"""DaemonSet controller: runs a pod of each DaemonSet on every eligible node.

Read reconciler.py first. placement.py determines the eligible nodes, pod_plan.py the pods to create and delete on each
node, rolling_update.py the pods that an update replaces, and history.py the ControllerRevisions.
"""

from kcm.actors.controllers.workloads.daemonset.spec import SPEC

__all__ = ["SPEC"]
