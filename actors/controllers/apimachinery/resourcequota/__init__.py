"""ResourceQuota controller: writes the usage of its namespace to the status of each ResourceQuota.

- reconciler.py: the decisions; read it first.
- evaluators.py: the evaluator and the table of each resource.
- changes.py: the changes that enqueue a quota.
- usage_cache.py: the parts of objects that are counted.
"""

from kcm.actors.controllers.apimachinery.resourcequota.spec import SPEC

__all__ = ["SPEC"]
