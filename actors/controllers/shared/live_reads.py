"""Repetition of decisions that depend on an object which exists on the server, but not in the table.

The object may never be in the table: if it is deleted before the informer lists again, no event announces its deletion.
Upstream waits for such an event, at the longest until the resync of its informer, after 12 to 24 hours.
"""

from __future__ import annotations

UNSEEN_CHECK = 10.0  # seconds until the key is reconciled again; by then the table usually contains the object
