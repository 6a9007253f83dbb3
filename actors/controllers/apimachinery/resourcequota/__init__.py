"""ResourceQuota controller: writes the usage of its namespace to the status of each ResourceQuota.

- reconciler.py: the decisions; read it first.
- evaluators.py: how the objects of each resource are counted, and the informer cache that they are read from.
- watches.py: the changes that enqueue quotas.
- usage_cache.py: cache of the fields of objects that affect usage.
"""

from kcm.actors.controllers.apimachinery.resourcequota.spec import SPEC

__all__ = ["SPEC"]
