"""Namespace controller: deletes the content of terminating namespaces, then removes their finalizer.

- reconciler.py: the decisions; read it first.
- served.py: discovery of the resources that are served now.
- content.py: deletion of the objects of a namespace.
- conditions.py: the conditions of the namespace.
- api_servers.py: how long API servers may still accept new objects in a terminating namespace.
"""

from kcm.actors.controllers.apimachinery.namespace.spec import SPEC

__all__ = ["SPEC"]
