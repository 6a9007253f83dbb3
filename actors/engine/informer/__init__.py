"""Actor that keeps the table of one resource up to date. Read actor.py first.

list_watch: requests to the server.
contents: objects of the table, and the differences for subscribers.
delivery: delivery of the differences.
retries: time of the next request after a failure, and outages, which all informers share.
"""

from kcm.actors.engine.informer.actor import Informer
from kcm.actors.engine.informer.list_watch import InformerLimits
from kcm.actors.engine.informer.retries import Outage

__all__ = ["Informer", "InformerLimits", "Outage"]
