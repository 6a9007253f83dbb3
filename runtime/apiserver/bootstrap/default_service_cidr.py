"""The default ServiceCIDR "kubernetes", with the ranges of --service-cluster-ip-range.

It is created, and recreated after its deletion. A single-stack one gets the second range of a dual-stack server; other
differences are left, and reported once. The condition Ready is set where it is missing or Unknown.

Source: kubernetes pkg/controlplane/controller/defaultservicecidr/default_servicecidr_controller.go (v1.36). Differs:
the status is written without an entry in managedFields.
"""

from __future__ import annotations

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, decode_object, is_deleting
from kcm.protocols.service_cidrs import DEFAULT_SERVICE_CIDR, READY
from kcm.runtime.apiserver.bootstrap.events import ServerEvent, record_warning
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.verbs.create import create_object

COMPONENT = "kubernetes-service-cidr-controller"
EVERY = 10.0  # seconds between reconciliations


class DefaultServiceCidr:
    """Creates and maintains the default ServiceCIDR."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = 0.0
        self._reported = set[str]()  # reasons of events that are recorded once

    def is_due(self, now: float) -> bool:
        """Report whether it is time to reconcile again. now: Unix time in seconds."""
        return now >= self._next

    def tick(self, now: float) -> None:
        self._next = now + EVERY
        self.reconcile()

    def reconcile(self) -> None:
        """Create the ServiceCIDR, or update its ranges and its condition. Source: sync, syncStatus."""
        definition = self._cluster.registry.find("networking.k8s.io", "v1", "servicecidrs")
        if definition is None:
            return
        stored = self._stored(definition)
        cidrs = list(self._cluster.service_ranges)
        if stored is None:
            head = {"kind": definition.kind, "apiVersion": definition.api_version}
            new = {**head, "metadata": {"name": DEFAULT_SERVICE_CIDR}, "spec": {"cidrs": cidrs}}
            create_object(self._cluster, definition, new)
            stored = self._stored(definition)
            assert stored is not None
        elif len(cidrs) == 2 and stored["spec"].get("cidrs") == cidrs[:1]:
            self._cluster.state.put(
                definition.storage, DEFAULT_SERVICE_CIDR, {**stored, "spec": {**stored["spec"], "cidrs": cidrs}}
            )
            return
        if not is_deleting(stored):
            self._update_status(definition, stored, cidrs)

    def _update_status(self, definition: ResourceDefinition, stored: Object, cidrs: list[str]) -> None:
        found = stored["spec"].get("cidrs") or []
        if found != cidrs:
            self._report(
                stored,
                "KubernetesDefaultServiceCIDRInconsistent",
                f"The default ServiceCIDR {_listed(found)} does not match the controller flag configurations "
                f"{_listed(cidrs)}",
            )
            return
        conditions = (stored.get("status") or {}).get("conditions") or []
        ready = find_condition(conditions, READY)
        if ready is not None and ready.get("status") == "False":
            self._report(stored, ready.get("reason") or "", f"Configuration matches, but {ready.get('message') or ''}")
        elif ready is None or ready.get("status") != "True":
            new = {
                "type": READY,
                "status": "True",
                "lastTransitionTime": self._cluster.timestamp(),
                "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
            }
            kept = [condition for condition in conditions if condition is not ready]
            self._cluster.state.put(
                definition.storage, DEFAULT_SERVICE_CIDR, {**stored, "status": {"conditions": [*kept, new]}}
            )

    def _report(self, stored: Object, reason: str, message: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            record_warning(self._cluster, stored, ServerEvent(component=COMPONENT, reason=reason, message=message))

    def _stored(self, definition: ResourceDefinition) -> Object | None:
        record = self._cluster.state.get(definition.storage, DEFAULT_SERVICE_CIDR)
        return None if record is None else decode_object(record.raw)


def _listed(cidrs: list[str]) -> str:
    """Return the text of a list as Go prints it."""
    return f"[{' '.join(cidrs)}]"
