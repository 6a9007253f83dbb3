"""Actor for leader election. Read actor.py first.

election: validated settings. lease: the Lease as last observed, and the requests to acquire it.
migration: controllers that run under a second Lease.
candidate: actor that lets the API server elect this process.
"""

from kcm.actors.engine.elector.actor import Elector, lost_lease
from kcm.actors.engine.elector.candidate import LeaseCandidate, candidate_selection
from kcm.actors.engine.elector.election import Candidacy, Election
from kcm.actors.engine.elector.migration import Migration, Ownership

__all__ = [
    "Candidacy",
    "Election",
    "Elector",
    "LeaseCandidate",
    "Migration",
    "Ownership",
    "candidate_selection",
    "lost_lease",
]
