"""namespace-controller: empties a namespace that is being deleted, then lets it go.

Read reconciler.py first. served: which resources there are. content: how objects of them are deleted. conditions: what
the namespace says of it. api_servers: how long objects may still be created.
"""

from kcm.actors.controllers.apimachinery.namespace.spec import SPEC

__all__ = ["SPEC"]
