"""Garbage collector: deletes objects without owners, and completes foreground and orphan deletions.

- reconciler.py: the decisions; read it first.
- items.py: the type of the queues' keys, and which keys a change enqueues.
- owners.py, ownership.py: whether each owner exists, and patches of owner references.
- owner_lookups.py: requests for owners that no informer has; lookups.py: their progress; absent.py: cache of owners
  that were not found.
"""

from kcm.actors.controllers.apimachinery.garbage_collector.spec import SPEC

__all__ = ["SPEC"]
