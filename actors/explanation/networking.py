"""Causes of Services and Ingresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcm.actors.controllers.network.shared.ports import named_ports
from kcm.actors.explanation import responsible
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, event_line, is_lasting
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import MOST_LISTED
from kcm.actors.explanation.workloads import troubled_pods
from kcm.protocols import resources as r
from kcm.protocols.conditions import is_true
from kcm.protocols.objects import Object, controller_of, is_deleting, labels_of, name_of
from kcm.protocols.resources import Resource
from kcm.protocols.selectors import LabelSelector, map_selector

SETTLING = 30.0  # seconds in which a Service gets ready pods or a load balancer
EARLY = 5.0  # seconds in which further objects of the same manifest are created
SERVICE_LB = "service-lb-controller"
SERVICE_NAME = "kubernetes.io/service-name"  # label of an EndpointSlice
OWNERS_OF_PODS = (r.DEPLOYMENTS, r.STATEFULSETS, r.DAEMONSETS, r.REPLICASETS, r.REPLICATION_CONTROLLERS, r.JOBS)
OLD_CLASS = "kubernetes.io/ingress.class"  # annotation of an Ingress
INGRESS_CLASSES = Resource(
    group="networking.k8s.io", version="v1", plural="ingressclasses", kind="IngressClass", namespaced=False
)

# Services.


def service_pending(case: Case) -> str:
    if case.spec.get("type") == "ExternalName":
        return ""
    if _needs_load_balancer(case):
        return "it has no load balancer"
    if case.spec.get("selector") and not _ready_endpoints(case):
        return "it has no ready endpoints"
    if any(_missing_ports(case, _ready_pods(case))):
        return "one of its ports has no endpoints"
    return "it has no endpoints, and an EndpointSlice has no Service" if _stray_slices(case) else ""


def _stray_slices(case: Case) -> list[str]:
    """Return the EndpointSlices without a Service, one of which was perhaps written for this Service, in words.

    A Service with a selector or with EndpointSlices needs none. A Service without them is not wrong by itself.
    """
    slices = case.evidence.list(r.ENDPOINT_SLICES, case.namespace)
    has_own = any(labels_of(found).get(SERVICE_NAME) == case.name for found in slices)
    if case.spec.get("selector") or has_own or len(slices) >= MOST_LISTED:
        return []
    lines = []
    for found in slices:
        name = labels_of(found).get(SERVICE_NAME)
        if not name:
            lines.append(f"endpointslice {name_of(found)} has no label {SERVICE_NAME}")
        elif case.evidence.is_missing(r.SERVICES, f"{case.namespace}/{name}"):
            lines.append(
                f"endpointslice {name_of(found)} has the label {SERVICE_NAME}={name}, and there is no such Service"
            )
    return lines


def _needs_load_balancer(case: Case) -> bool:
    return case.spec.get("type") == "LoadBalancer" and not (case.status.get("loadBalancer") or {}).get("ingress")


def _ready_endpoints(case: Case) -> int:
    """Return the number of ready endpoints that have a port; 1 if there are too many slices to be read."""
    slices = case.evidence.list(r.ENDPOINT_SLICES, case.namespace)
    if len(slices) >= MOST_LISTED:
        return 1
    has_ports = bool(case.spec.get("ports"))
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for found in slices
        if labels_of(found).get(SERVICE_NAME) == case.name and (found.get("ports") or not has_ports)
        for endpoint in found.get("endpoints") or ()
    )


def service_causes(case: Case) -> Iterator[Cause]:
    if case.spec.get("type") == "ExternalName":
        return
    if case.spec.get("selector") and not _ready_endpoints(case):
        yield from _no_endpoints(case)
    elif stray := _stray_slices(case):
        if _is_settled(case):
            yield case.cause(
                "endpoints-missing",
                f"it has no selector, and no EndpointSlice has the label {SERVICE_NAME}={case.name}",
                *stray[:MOST_FOLLOWED],
                since=case.created,
            )
    else:
        yield from _missing_ports(case, _ready_pods(case))
    if _needs_load_balancer(case):
        yield from _no_load_balancer(case)


def _is_settled(case: Case, seconds: float = SETTLING) -> bool:
    return case.created is not None and case.now - case.created > seconds


def _no_endpoints(case: Case) -> Iterator[Cause]:
    selector = map_selector(case.spec["selector"])
    pods = [pod for pod in case.evidence.selected(r.PODS, case.namespace, selector) if not is_deleting(pod)]
    if not pods:
        yield from _no_pods(case, selector)
        return
    ready = [pod for pod in pods if _is_ready(pod)]
    if ready:
        yield from _missing_ports(case, ready)
        return
    found = list(troubled_pods(case, pods))
    yield from found
    if is_lasting(found) or (not found and _is_settled(case)):
        named = ", ".join(name_of(pod) for pod in pods[:MOST_FOLLOWED])
        yield case.cause(
            "endpoints-not-ready", f"none of its {len(pods)} pods is ready: {named}", f"selector {selector}"
        )


def _no_pods(case: Case, selector: LabelSelector) -> Iterator[Cause]:
    owners = list(_future_owners(case, selector))
    found = [cause for resource, owner in owners for cause in case.follow(resource, owner)]
    yield from found
    has_none_to_come = all(_replicas(owner) == 0 for _, owner in owners)
    if is_lasting(found) or _is_settled(case, EARLY if has_none_to_come else SETTLING):
        lines = [
            f"{resource.kind.lower()} {name_of(owner)}, whose pods would match, has {_replicas(owner)} replicas"
            for resource, owner in owners
        ]
        idle = [name_of(owner) for _, owner in owners if _replicas(owner) == 0]
        why = f": {', '.join(idle)} is scaled to 0" if idle and len(idle) == len(owners) else ""
        yield case.cause(
            "service-no-pods",
            f"no pod matches its selector {selector}{why}",
            *(lines or _similar(case)),
            since=case.created,
        )


def _future_owners(case: Case, selector: LabelSelector) -> Iterator[tuple[Resource, Object]]:
    """Yield the workloads whose pods the selector of the Service matches."""
    for resource in OWNERS_OF_PODS:
        for owner in case.evidence.list(resource, case.namespace):
            template = (owner.get("spec") or {}).get("template") or {}
            if controller_of(owner) is None and selector.matches(labels_of(template)) and not is_deleting(owner):
                yield resource, owner


def _replicas(owner: Object) -> int:
    """Return the number of pods that a workload requires."""
    spec, status = owner.get("spec") or {}, owner.get("status") or {}
    for field in ("replicas", "parallelism"):
        if isinstance(spec.get(field), int):
            return int(spec[field])
    return int(status.get("desiredNumberScheduled") or 0)


def _similar(case: Case) -> Iterator[str]:
    """Yield pods that match a part of the selector, which is often a mistake in one label."""
    wanted = case.spec["selector"]
    for pod in case.evidence.list(r.PODS, case.namespace)[:100]:
        labels = labels_of(pod)
        differing = [key for key, value in wanted.items() if labels.get(key) != value]
        if len(differing) < len(wanted) or any(key in labels for key in differing):
            shown = ", ".join(f"{key}={labels.get(key, '')}" for key in differing)
            yield f"pod {name_of(pod)} has {shown}"
            return


def _is_ready(pod: Object) -> bool:
    return is_true((pod.get("status") or {}).get("conditions"), "Ready")


def _named_targets(case: Case) -> list[Object]:
    """Return the ports of a Service whose targetPort is the name of a container port."""
    return [port for port in case.spec.get("ports") or () if isinstance(port.get("targetPort"), str)]


def _ready_pods(case: Case) -> list[Object]:
    """Return the ready pods of a Service with a selector and a named targetPort; for other Services none."""
    if not case.spec.get("selector") or not _named_targets(case):
        return []
    selector = map_selector(case.spec["selector"])
    return [pod for pod in case.evidence.selected(r.PODS, case.namespace, selector) if _is_ready(pod)]


def _missing_ports(case: Case, ready: Sequence[Object]) -> Iterator[Cause]:
    """Yield a cause for each named targetPort that none of the ready pods has; nothing without ready pods."""
    if not ready:
        return
    named = {name for pod in ready for name in named_ports(pod)}
    for port in _named_targets(case):
        target, protocol = port["targetPort"], port.get("protocol") or "TCP"
        if (target, protocol) not in named:
            yield case.cause(
                "target-port-missing",
                f"no container of its {len(ready)} ready pods has a {protocol} port named {target}",
                f"port {port.get('name') or port.get('port')} has targetPort {target}",
                *(f"there is a {other} port named {name}" for name, other in sorted(named)[:MOST_FOLLOWED]),
            )


def _no_load_balancer(case: Case) -> Iterator[Cause]:
    failed = case.event("SyncLoadBalancerFailed")
    class_ = case.spec.get("loadBalancerClass")
    if failed is not None:
        yield case.cause(
            "load-balancer-failed", f"its load balancer cannot be created: {failed.get('message')}", event_line(failed)
        )
        return
    if class_:
        if _is_settled(case):
            yield case.cause(
                "load-balancer-missing",
                f"no controller has created a load balancer of the class {class_}",
                f"spec.loadBalancerClass {class_}",
                since=case.created,
            )
        return
    idle = list(responsible.not_working(case, (SERVICE_LB,)))
    for trouble in idle:
        yield case.cause(
            "load-balancer-missing",
            f"no controller creates load balancers here: {trouble.summary}; it needs --cloud-provider",
            *trouble.evidence,
            controller=SERVICE_LB,
            since=case.created,
        )
    if not idle and _is_settled(case):
        yield case.cause("load-balancer-missing", "no controller has created its load balancer", since=case.created)


# Ingresses.


def ingress_pending(case: Case) -> str:
    found = next(iter(_missing_of_ingress(case)), None)
    if found is not None:
        return found[1]
    return "it names no class, and has no address" if _is_unclassed(case) else ""


def ingress_causes(case: Case) -> Iterator[Cause]:
    for code, text in dict.fromkeys(_missing_of_ingress(case)):
        yield case.cause(code, text)
    for name in sorted({name for name, _ in _backends(case)}):
        service = case.evidence.get(r.SERVICES, f"{case.namespace}/{name}")
        yield from case.follow(r.SERVICES, service)
    if _is_unclassed(case) and _is_settled(case, EARLY):
        classes = ", ".join(map(name_of, case.evidence.list(INGRESS_CLASSES)))
        yield case.cause(
            "ingress-unclassed",
            "it names no IngressClass, so that most controllers leave it alone; none has given it an address",
            f"IngressClasses: {classes}; a default class concerns only Ingresses that are created later",
            since=case.created,
        )


def _is_unclassed(case: Case) -> bool:
    """Report whether an Ingress names no class where there are classes, and nothing shows that it is handled."""
    if case.spec.get("ingressClassName") or OLD_CLASS in case.annotations:
        return False
    if (case.status.get("loadBalancer") or {}).get("ingress") or case.events():
        return False
    return bool(case.evidence.list(INGRESS_CLASSES))  # without any, the controllers here handle all Ingresses


def _backends(case: Case) -> set[tuple[str, str]]:
    """Return the services of an Ingress, each with the name or the number of its port; "" without a port."""
    backends = [case.spec.get("defaultBackend") or {}]
    for rule in case.spec.get("rules") or ():
        backends += [path.get("backend") or {} for path in (rule.get("http") or {}).get("paths") or ()]
    services = [backend.get("service") or {} for backend in backends]
    ports = [service.get("port") or {} for service in services]
    return {
        (service["name"], str(port.get("name") or port.get("number") or ""))
        for service, port in zip(services, ports, strict=True)
        if service.get("name")
    }


def _has_port(service: Object, port: str) -> bool:
    """Report whether a Service has a port of this name or number. Ports of an ExternalName need not be listed."""
    spec = service.get("spec") or {}
    listed = spec.get("ports") or ()
    return spec.get("type") == "ExternalName" or any(
        port in (found.get("name"), str(found.get("port"))) for found in listed
    )


def _missing_of_ingress(case: Case) -> Iterator[tuple[str, str]]:
    class_ = case.spec.get("ingressClassName")
    if class_ and case.evidence.is_missing(INGRESS_CLASSES, class_):
        classes = [name_of(found) for found in case.evidence.list(INGRESS_CLASSES)]
        others = f"; there are {', '.join(classes[:MOST_FOLLOWED])}" if classes else ""
        yield "ingress-class-missing", f"its IngressClass {class_} does not exist{others}"
    for name, port in sorted(_backends(case)):
        service = case.evidence.get(r.SERVICES, f"{case.namespace}/{name}")
        if case.evidence.is_missing(r.SERVICES, f"{case.namespace}/{name}"):
            yield "backend-missing", f"its backend service {name} does not exist"
        elif service is not None and port and not _has_port(service, port):
            ports = [
                f"{found.get('name') or ''} {found.get('port')}".strip() for found in service["spec"].get("ports") or ()
            ]
            yield "backend-missing", f"its backend service {name} has no port {port}, but {', '.join(ports) or 'none'}"
    for entry in case.spec.get("tls") or ():
        secret = entry.get("secretName")
        if secret and case.evidence.is_missing(r.SECRETS, f"{case.namespace}/{secret}"):
            yield "config-missing", f"its TLS secret {secret} does not exist"
