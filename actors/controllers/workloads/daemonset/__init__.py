"""daemonset-controller: keeps a pod of each DaemonSet on every node that it fits.

Read reconciler.py first. placement.py says which nodes those are, managing.py which pods come and go on a node,
rolling.py which are replaced by a new template, history.py which templates there were.
"""

from kcm.actors.controllers.workloads.daemonset.spec import SPEC

__all__ = ["SPEC"]
