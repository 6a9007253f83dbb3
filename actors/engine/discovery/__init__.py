"""The actor that finds out which resources the API server serves. Read actor.py first.

documents: what discovery documents say. survey: one round of requests, and what is known after it.
"""

from actors.engine.discovery.actor import Discovery

__all__ = ["Discovery"]
