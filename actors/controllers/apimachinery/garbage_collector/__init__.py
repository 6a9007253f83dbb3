"""garbage-collector-controller: deletes what has lost its owners, and does what an owner's deletion asks for.

Read reconciler.py first. items: what a key names, and which changes concern which. ownership: what an object's owner
references come to. absent, lookups: the owners that are known not to exist, and how far those of one object have been
looked up.
"""

from kcm.actors.controllers.apimachinery.garbage_collector.spec import SPEC

__all__ = ["SPEC"]
