"""The actor that keeps one resource's table in line with the API server. Read actor.py first.

list_watch: how the server is asked. contents: what it shows goes into the table, and on to subscribers.
"""

from actors.engine.informer.actor import Informer
from actors.engine.informer.list_watch import InformerLimits

__all__ = ["Informer", "InformerLimits"]
