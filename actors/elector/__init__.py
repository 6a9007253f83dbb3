"""The actor that says whether we may write. Read actor.py first.

election: the flags, checked. lease: the Lease as we have seen it, and how one tries for it.
"""

from actors.elector.actor import Elector
from actors.elector.election import Election

__all__ = ["Election", "Elector"]
