"""Actor for leader election. Read actor.py first.

election: validated settings. lease: the Lease as last observed, and the requests to acquire it.
"""

from kcm.actors.engine.elector.actor import Elector
from kcm.actors.engine.elector.election import Election

__all__ = ["Election", "Elector"]
