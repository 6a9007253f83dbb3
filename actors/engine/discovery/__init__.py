"""Actor that finds out which resources the API server serves. Read actor.py first."""

from kcm.actors.engine.discovery.actor import Discovery

__all__ = ["Discovery"]
