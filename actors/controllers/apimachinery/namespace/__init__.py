"""Namespace controller: deletes the content of terminating namespaces, then removes their finalizer.

- reconciler.py: the decisions; read it first.
- served.py: discovery of the resources that are served now.
- content.py: deletion of the objects of a namespace.
- conditions.py: the conditions of the namespace.
- api_servers.py: the time during which objects may still be created.
"""

from kcm.actors.controllers.apimachinery.namespace.spec import SPEC

__all__ = ["SPEC"]
