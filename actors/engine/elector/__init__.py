"""The actor that says whether we may write. Read actor.py first.

election: the flags, checked. lease: the Lease as we have seen it, and how one tries for it.
"""

from kcm.actors.engine.elector.actor import Elector
from kcm.actors.engine.elector.election import Election

__all__ = ["Election", "Elector"]
