"""Request of a kubelet, as the checks of NodeRestriction read it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, decode_object, make_key
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition


class KubeletRequest(NamedTuple):
    """Request of a kubelet, with the objects before and after it."""

    cluster: Cluster
    call: RoutedRequest
    node: str  # name of the requesting node
    operation: str  # CREATE, UPDATE or DELETE
    new: Object | None  # the object, or the body of a subresource; None for a deletion
    old: Object | None  # the object that is replaced or deleted

    @property
    def definition(self) -> ResourceDefinition:
        return self.call.definition

    @property
    def subresource(self) -> str:
        return self.call.route.subresource

    @property
    def name(self) -> str:
        """Name of the object; "" if it will be generated."""
        return self.call.route.name or self._metadata_field("name")

    def refusal(self, because: str) -> StatusError:
        name = self.name or self._metadata_field("generateName") or "Unknown"
        return status_errors.forbidden(self.definition.group, self.definition.plural, name, because)

    def pod(self, name: str) -> Object:
        """Return a pod of the request's namespace. Raises StatusError (404)."""
        return self.stored_object("pod", "pods", make_key(self.call.route.namespace, name))

    def stored_object(self, singular: str, storage: str, key: Key) -> Object:
        """Return a stored object.

        singular: name of the resource in the error, which has the text of a client-go lister
        storage: name of the resource in the store, such as "csidrivers.storage.k8s.io"
        key: namespace/name, or the name of a cluster-scoped object

        Raises StatusError (404).
        """
        record = self.cluster.state.get(storage, key)
        if record is None:
            raise status_errors.not_found(storage.partition(".")[2], singular, key.rpartition("/")[2])
        return decode_object(record.raw)

    def _metadata_field(self, field: str) -> str:
        obj: Any = self.new or self.old or {}
        return obj.get("metadata", {}).get(field) or ""
