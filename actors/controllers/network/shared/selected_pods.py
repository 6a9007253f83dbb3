"""Lookup of the pods that a Service selects, and of the Services that select a pod.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/util/controller_utils.go (GetPodUpdateProjectionKey,
GetServicesToUpdate). Differences: Services are found by an index; a pod without an address before and after the change
enqueues no Service; a pod that reaches a terminal phase enqueues its Services, while upstream removes its endpoint only
when another change enqueues them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.actors.reconciliation.specs import Facts, Index
from kcm.protocols.objects import Key, Object, split_key
from kcm.protocols.pods import PodFacts, is_terminal, pod_facts
from kcm.protocols.resources import PODS, SERVICES
from kcm.protocols.services import service_facts
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

Pairs = Sequence[tuple[str, str]]

SELECTOR = "selector"
EVERY_POD = ""


def selector_values(service: Object) -> Iterable[str]:
    """Return the value under which a Service is indexed, to find the Services that select a pod by its labels.

    The value is "namespace/label=value" with the first label of the selector, which every selected pod must have;
    EVERY_POD replaces the label for an empty selector. A Service without a selector has no value.
    """
    selector = service_facts(service).selector
    if selector is None:
        return ()
    namespace = (service.get("metadata") or {}).get("namespace")
    return (_value(namespace, min(selector) if selector else None),)


def _value(namespace: str | None, pair: tuple[str, str] | None) -> str:
    return f"{namespace}/{EVERY_POD if pair is None else '='.join(pair)}"


SERVICES_BY_SELECTOR = Index(SERVICES, SELECTOR, selector_values)
SERVICE_FACTS = Facts(SERVICES, service_facts)


def matches(pairs: Pairs, labels: Mapping[str, str]) -> bool:
    return all(labels.get(label) == value for label, value in pairs)


def selected_pods(pods: Lister, namespace: str, pairs: Pairs) -> list[Entry]:
    """Return the pods of a namespace that have all of these labels. pairs: (label, value) of a Service's selector."""
    known: dict[int, bool] = {}  # pods with equal labels share one mapping
    found = []
    for entry in pods.entries(namespace):
        labels = entry.facts.labels
        selected = known.get(id(labels))
        if selected is None:
            selected = known[id(labels)] = matches(pairs, labels)
        if selected:
            found.append(entry)
    return found


def selecting_services(services: Lister, namespace: str, labels: Mapping[str, str]) -> set[Key]:
    """Return the keys of the Services in a namespace that select a pod with these labels."""
    found = {entry.key for entry in services.indexed_entries(SELECTOR, _value(namespace, None))}
    for pair in labels.items():
        for entry in services.indexed_entries(SELECTOR, _value(namespace, pair)):
            if matches(entry.facts.selector, labels):
                found.add(entry.key)
    return found


def services_of_pod(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the keys of the Services whose endpoints this change of a pod may affect. Source: GetServicesToUpdate."""
    services, namespace = tables[SERVICES], change.namespace
    entry = None if change.deleted else tables[PODS].entry(change.key)
    now: PodFacts = pod_facts(change.new) if entry is None else entry.facts
    if change.old is None:
        return sorted(selecting_services(services, namespace, now.labels)) if now.ips else ()
    before = pod_facts(change.old)
    if not now.ips and not before.ips:
        return ()
    differ = change.deleted or _differ(before, now)
    if now.labels == before.labels:
        return sorted(selecting_services(services, namespace, now.labels)) if differ else ()
    found = selecting_services(services, namespace, now.labels)
    others = selecting_services(services, namespace, before.labels)
    return sorted(found | others if differ else found ^ others)


def _differ(before: PodFacts, now: PodFacts) -> bool:
    """Report whether a pod's change may alter its endpoint. Labels are not compared. Source: podEndpointsChanged."""
    return (before.ips, before.ready, before.deleting, is_terminal(before)) != (
        now.ips,
        now.ready,
        now.deleting,
        is_terminal(now),
    )


PODS_CHANGED: Watch[Key] = Watch(
    PODS,
    to=services_of_pod,
    interest=Interest(changed=("labels", "deleting", "ready", "ips", "phase"), filled=("ips",)),
)


def hostname_of(pods: Lister, pod: Entry, service: Key) -> str:
    """Return the hostname that a pod has within the DNS domain of a headless Service.

    This is spec.hostname if spec.subdomain is the name of the Service, otherwise "".
    """
    if not pod.facts.subdomain:
        return ""
    namespace, name = split_key(service)
    if pod.facts.subdomain != name or split_key(pod.key)[0] != namespace:
        return ""
    return (pods.object_of(pod).get("spec") or {}).get("hostname") or ""
