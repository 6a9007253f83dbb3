"""APIServices for the versions that CustomResourceDefinitions serve, created and deleted with the definitions.

Source: kube-aggregator pkg/controllers/autoregister/autoregister_controller.go,
kubernetes pkg/controlplane/controller/crdregistration/crdregistration_controller.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import decode_object, labels_of
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.custom_resources import DEFINITIONS
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.apiserver.verbs.create import create_object

SERVICES = "apiservices.apiregistration.k8s.io"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"  # label: "true" on APIServices that are created and removed here
_GROUP_PRIORITY, _VERSION_PRIORITY = 1000, 100


class CustomApiServices:
    """Creates missing APIServices of custom kinds, and removes its own that are no longer needed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def react(self, change: StoreChange) -> None:
        if change.storage == DEFINITIONS or (change.storage == SERVICES and change.type == DELETED):
            self.reconcile()

    def undo(self, change: StoreChange) -> None:
        """Do nothing: no state is derived from changes."""

    def reconcile(self) -> None:
        state, registry = self._cluster.state, self._cluster.registry
        definition = registry.of_storage(SERVICES)
        if definition is None:
            return
        wanted = {
            f"{definition.version}.{definition.group}": definition for definition in registry if definition.dynamic
        }
        stored = state.collection(SERVICES).records
        for name, record in list(stored.items()):
            if name not in wanted and labels_of(obj := decode_object(record.raw)).get(MANAGED) == "true":
                state.remove(SERVICES, name, obj)
        for name in sorted(wanted.keys() - stored.keys()):
            spec = {
                "group": wanted[name].group,
                "version": wanted[name].version,
                "groupPriorityMinimum": _GROUP_PRIORITY,
                "versionPriority": _VERSION_PRIORITY,
            }
            meta = {"name": name, "labels": {MANAGED: "true"}}
            head = {"kind": definition.kind, "apiVersion": definition.api_version, "metadata": meta}
            create_object(self._cluster, definition, {**head, "spec": spec})
