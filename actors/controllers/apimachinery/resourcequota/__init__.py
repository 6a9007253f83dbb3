"""resourcequota-controller: says in each ResourceQuota what its namespace uses of what it limits.

Read reconciler.py first. counting: by whom the objects of a namespace are counted, and from which tables. changes:
which changes have a quota counted again.
"""

from kcm.actors.controllers.apimachinery.resourcequota.spec import SPEC

__all__ = ["SPEC"]
