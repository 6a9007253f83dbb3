"""Garbage collector: deletes objects without owners, and completes foreground and orphan deletions.

- reconciler.py: the decisions; read it first.
- items.py: keys, and the keys that a change enqueues.
- owners.py, ownership.py: the state of each owner, and the patches of owner references.
- owner_lookups.py: live reads of owners that are in no table; absent.py, lookups.py: their results and progress.
"""

from kcm.actors.controllers.apimachinery.garbage_collector.spec import SPEC

__all__ = ["SPEC"]
