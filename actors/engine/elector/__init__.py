"""Actor for leader election. Read actor.py first.

election: validated settings. lease: the Lease as last observed, and the requests to acquire it.
migration: controllers that run under a second Lease.
candidate: actor that lets the API server elect this process.
groups: controllers that run under Leases of their own, which several replicas share.
coordinator: actor that decides for which groups this replica competes.
replicas: Leases of groups and replicas as last observed.
assignment: which replica holds which group.
"""

from kcm.actors.engine.elector.actor import Elector, lost_lease
from kcm.actors.engine.elector.election import Candidacy, Election
from kcm.actors.engine.elector.migration import Migration, Ownership

__all__ = [
    "Candidacy",
    "Election",
    "Elector",
    "Migration",
    "Ownership",
    "lost_lease",
]
