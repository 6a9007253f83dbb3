"""The actor that keeps one resource's table in line with the API server. Read actor.py first.

list_watch: how the server is asked. contents: what it shows goes into the table, and on to subscribers. retries:
when it asks again after a failure. outage: what all informers share while the server gives no response.
"""

from kcm.actors.engine.informer.actor import Informer
from kcm.actors.engine.informer.list_watch import InformerLimits
from kcm.actors.engine.informer.retries import Outage

__all__ = ["Informer", "InformerLimits", "Outage"]
