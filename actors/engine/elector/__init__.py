"""The actor that says whether we may write. Read actor.py first.

election: the flags, checked. lease: the Lease as we have seen it, and how one tries for it.
"""

from actors.engine.elector.actor import Elector
from actors.engine.elector.election import Election

__all__ = ["Election", "Elector"]
