"""Builders of pods, PodGroups, claims and templates, and a bench that runs the resource claim controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from structlog.testing import CapturingLogger

from kcm.actors.controllers.devices.resource_claim import SPEC
from kcm.actors.controllers.devices.resource_claim.metrics import CREATES, ResourceClaimMetrics
from kcm.actors.controllers.devices.resource_claim.reconciler import Features, ResourceClaimReconciler
from kcm.actors.controllers.devices.resource_claim.watches import Enqueuing
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.commands import Command, Get
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, encode_object, key_of, name_of
from kcm.protocols.resource_claims import DELETE_PROTECTION, POD_CLAIM_NAME
from kcm.protocols.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from kcm.runtime.metrics.registry import Metrics

ENTRY, TEMPLATE, NAMESPACE = "acme-resource", "my-template", "my-namespace"
GENERATED = "test-pod-acme-resource-xyz"
LATER = "2026-01-01T00:00:00Z"
ADMIN = {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "class", "adminAccess": True}}]}}
PRIORITIZED = {"devices": {"requests": [{"name": "req-0", "firstAvailable": [{"name": "a"}]}]}}


def entry(name: str = ENTRY, *, template: str = TEMPLATE, claim: str = "") -> Object:
    return (
        {"name": name, "resourceClaimName": claim} if claim else {"name": name, "resourceClaimTemplateName": template}
    )


def pod(
    name: str = "test-pod",
    *entries: Object,
    node: str = "",
    phase: str = "",
    group: str = "",
    recorded: Mapping[str, str | None] | None = None,
    extended: str = "",
    **meta: Any,
) -> Object:
    spec: Object = {"resourceClaims": list(entries)} if entries else {}
    if node:
        spec["nodeName"] = node
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    status: Object = {"phase": phase} if phase else {}
    if recorded:
        status["resourceClaimStatuses"] = [statuses(each, claim) for each, claim in recorded.items()]
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", **meta},
        "spec": spec,
        "status": status,
    }


def statuses(entry_name: str, claim_name: str | None) -> Object:
    return {"name": entry_name, **({} if claim_name is None else {"resourceClaimName": claim_name})}


def podgroup(*entries: Object, recorded: Mapping[str, str] | None = None, **meta: Any) -> Object:
    status = {"resourceClaimStatuses": [statuses(*each) for each in recorded.items()]} if recorded else {}
    return {
        "metadata": {"name": "group", "namespace": NAMESPACE, "uid": "uid-group", **meta},
        "spec": {"resourceClaims": list(entries)},
        "status": status,
    }


def template(spec: Object | None = None, **meta: Any) -> Object:
    inner: Object = {"spec": {} if spec is None else spec}
    if meta:
        inner["metadata"] = meta
    return {"metadata": {"name": TEMPLATE, "namespace": NAMESPACE}, "spec": inner}


def owner_of(user: Object, kind: str = "Pod") -> Object:
    version = "v1" if kind == "Pod" else "scheduling.k8s.io/v1alpha2"
    meta = user["metadata"]
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def consumer(user: Object, **other: str) -> Object:
    meta = user["metadata"]
    return {"resource": "pods", "name": meta["name"], "uid": meta["uid"], **other}


IN_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
OTHER_CONSUMER = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"}


def claim(
    name: str = GENERATED,
    *,
    owner: Object | None = None,
    templated: bool = True,
    allocated: bool = False,
    reserved: Iterable[Object] = (),
    protected: bool = False,
    spec: Object | None = None,
    **meta: Any,
) -> Object:
    whole: Object = {"name": name, "namespace": NAMESPACE, **meta}
    if owner is not None:
        whole["ownerReferences"] = [owner]
    if templated:
        whole["annotations"] = {POD_CLAIM_NAME: ENTRY}
    if protected:
        whole["finalizers"] = [DELETE_PROTECTION]
    status: Object = {"allocation": {"devices": {}}} if allocated or reserved else {}
    if reserved:
        status["reservedFor"] = list(reserved)
    return {"metadata": whole, "spec": spec or {}, "status": status}


def done(user: Object) -> Object:
    return {**user, "status": {**user["status"], "phase": "Succeeded"}}


POD, PLAIN, OTHER_POD = pod("test-pod", entry()), pod(), pod("test-pod-II")
OF_POD = owner_of(POD)
GROUP = podgroup(entry())
OF_GROUP = owner_of(GROUP, "PodGroup")
OF_OTHER = owner_of(pod("other"))
RECORDED = pod("test-pod", entry(), recorded={ENTRY: GENERATED})
CONSUMER, CONSUMER_II = consumer(POD), consumer(OTHER_POD)
GROUP_CONSUMER = consumer(GROUP, **IN_GROUP)
BOUND = {"node": "worker", "recorded": {ENTRY: GENERATED}}
POD_KEY, GROUP_KEY = f"pod:{NAMESPACE}/test-pod", f"podgroup:{NAMESPACE}/group"
CLAIM_KEY = f"claim:{NAMESPACE}/{GENERATED}"


class Scene:
    """Bench that runs the reconciler.

    live: pods of the API server that the table does not contain.
    """

    def __init__(
        self,
        *,
        pods: Iterable[Object] = (),
        claims: Iterable[Object] = (),
        templates: Iterable[Object] = (),
        groups: Iterable[Object] | None = None,
        live: Iterable[Object] = (),
        **features: bool,
    ) -> None:
        tables: dict[Resource, Iterable[Any]] = {
            PODS: pods,
            RESOURCE_CLAIMS: claims,
            RESOURCE_CLAIM_TEMPLATES: templates,
        }
        self.enqueuing = Enqueuing(groups=groups is not None)
        if groups is not None:
            tables[POD_GROUPS] = groups
        self.live = {key_of(each): each for each in live}
        self.bench = Bench(tables, indexes=self.enqueuing.indexes, facts=SPEC.facts)
        self.metrics = Metrics()
        lister = self.bench.tables[RESOURCE_CLAIMS]
        self.reconciler = ResourceClaimReconciler(
            tables=self.bench.tables,
            features=Features(groups=groups is not None, **features),
            metrics=ResourceClaimMetrics(self.metrics, lister),
            log=CapturingLogger(),  # type: ignore[arg-type]
        )

    def reconcile(self, key: str, answer: Answer | None = None, **how: Any) -> Driven:
        return drive(self.reconciler, key, answer or self.accept, tables=self.bench.tables, **how)

    def accept(self, command: Command) -> Outcome:
        if isinstance(command, Get) and command.resource == PODS.id and command.key in self.live:
            live = self.live[command.key]
            return Done(encode_object({**live, "metadata": {**live["metadata"], "resourceVersion": "1000"}}))
        return self.bench.accept(command)

    def claims(self) -> list[Object]:
        return sorted(self.bench.tables[RESOURCE_CLAIMS].objects(), key=name_of)

    def recorded(self, resource: Resource = PODS, name: str = "test-pod") -> list[Object]:
        found = self.bench.tables[resource].get(f"{NAMESPACE}/{name}")
        assert found is not None
        return list((found.get("status") or {}).get("resourceClaimStatuses") or ())

    def created(self) -> dict[tuple[str, ...], float]:
        return {
            labels: series.value
            for family, all_ in self.metrics.collect()
            if family is CREATES
            for labels, series in all_
        }

    def keys(self, watched: Resource, change: Change) -> list[str]:
        (watch,) = (watch for watch in self.enqueuing.watches if watch.resource == watched)
        return list(dict.fromkeys(watch.to(change, self.bench.tables)))
