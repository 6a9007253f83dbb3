"""Actor for leader election. Read actor.py first.

election: validated settings. lease: the Lease as last observed, and the requests to acquire it.
migration: controllers that run under a second Lease.
"""

from kcm.actors.engine.elector.actor import Elector, lost_lease
from kcm.actors.engine.elector.election import Election
from kcm.actors.engine.elector.migration import Migration, Ownership

__all__ = ["Election", "Elector", "Migration", "Ownership", "lost_lease"]
