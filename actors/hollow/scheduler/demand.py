"""Scheduling requirements of a pod.

Source: kubernetes v1.36 component-helpers/resource/helpers.go, PodRequests; component-helpers/scheduling/corev1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.hollow.scheduler.pod_terms import NO_TERMS, PodTerms, pod_terms
from kcm.protocols import pod_resources
from kcm.protocols.node_affinity import Term, required_terms
from kcm.protocols.objects import Key, Object, OwnerRef
from kcm.protocols.quantities import milli_value, whole_value
from kcm.protocols.selectors import Operator
from kcm.protocols.volumes import claim_keys

# Requests of a pod without requests when nodes are scored. Source: pkg/scheduler/util/pod_resources.go.
UNASKED_CPU, UNASKED_MEMORY = 100, 200 * 1024 * 1024
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class Taint(NamedTuple):
    """Taint of a node. effect: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """Toleration of a pod.

    key: "" for all taints.
    effect: "" for all effects.
    exists: the operator is Exists, so that the value is ignored.
    """

    key: str
    value: str
    effect: str
    exists: bool

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or (self.key != "" and self.value == taint.value)


class Port(NamedTuple):
    """Host port. address: "" for all addresses of the host."""

    protocol: str
    address: str
    number: int


class Demand(Struct, frozen=True, kw_only=True):
    """Requirements of a pod; pods of one owner usually share one value.

    requests: amounts by resource, cpu in millicores, all others in units; contains only requested resources.
    cpu, memory: the requested amounts, or the defaults for a pod without requests.
    selector: pairs of nodeSelector.
    terms: terms of the required node affinity, of which one must match; None without node affinity.
    names: the only nodes that the terms' fields allow; None without such a limit.
    owner: uid of the controller; "" for none.
    claims: keys of its PersistentVolumeClaims.
    priority: spec.priority.
    terms_about_pods: affinity to other pods, topology spread, and preferences.
    """

    requests: tuple[tuple[str, int], ...] = ()
    cpu: int = UNASKED_CPU
    memory: int = UNASKED_MEMORY
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    names: frozenset[str] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[Port, ...] = ()
    owner: str = ""
    claims: tuple[Key, ...] = ()
    priority: int = 0
    terms_about_pods: PodTerms = NO_TERMS

    def tolerates(self, taint: Taint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self.tolerations)


def demand_of(pod: Object, *, controller: OwnerRef | None) -> Demand:
    """Return the requirements of a pod. Raises ValueError for an invalid quantity."""
    spec = pod["spec"]
    requests = _requests_in_use(pod)
    terms = required_terms(spec.get("affinity"))
    return Demand(
        requests=tuple(sorted((name, amount) for name, amount in requests.items() if amount)),
        cpu=requests.get("cpu") or UNASKED_CPU,
        memory=requests.get("memory") or UNASKED_MEMORY,
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        terms=terms,
        names=_names(terms),
        tolerations=tuple(_toleration(toleration) for toleration in spec.get("tolerations") or ()),
        ports=host_ports(spec),
        owner=controller.uid if controller is not None else "",
        claims=tuple(claim_keys(pod)) if spec.get("volumes") else (),
        priority=spec.get("priority") or 0,
        terms_about_pods=pod_terms(pod),
    )


def _requests_in_use(pod: Object) -> dict[str, int]:
    """Return the requests of a pod. During a resize in place they include what is still allocated or applied."""
    if not _is_resized(pod):
        return pod_requests(pod["spec"])
    return {name: amount_of(name, str(quantity)) for name, quantity in pod_resources.pod_requests(pod).items()}


def _is_resized(pod: Object) -> bool:
    """Report whether allocated or applied requests of the pod, or of a container, differ from the requested ones."""
    spec, status = pod["spec"], pod.get("status") or {}
    if spec.get("resources") and _differ(spec, status):
        return True
    for field in ("initContainers", "containers"):
        statuses = status.get(f"{field[:-1]}Statuses")
        if statuses:
            known = {entry.get("name"): entry for entry in statuses}
            if any(_differ(container, known.get(container.get("name"))) for container in spec.get(field) or ()):
                return True
    return False


def _differ(wanted: Mapping[str, Any], status: Mapping[str, Any] | None) -> bool:
    requests = (wanted.get("resources") or {}).get("requests") or {}
    given = ((status or {}).get("allocatedResources"), ((status or {}).get("resources") or {}).get("requests"))
    return any(amounts and amounts != requests for amounts in given)


def pod_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests of a pod: the maximum of running (containers and sidecars) and of initialization.

    Pod-level requests replace the result for their resources, and the overhead is added. Raises ValueError for an
    invalid quantity.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    preparing: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            continue
        _add(own, sidecars)
        for name, amount in own.items():
            preparing[name] = max(preparing.get(name, 0), amount)
    _add(total, sidecars)
    for name, amount in preparing.items():
        total[name] = max(total.get(name, 0), amount)
    total.update(_requests(spec))
    _add(total, _amounts(spec.get("overhead")))
    return total


@lru_cache(maxsize=4096)
def amount_of(resource: str, quantity: str | int | float) -> int:
    """Return a quantity as an integer: CPU in thousandths, other resources in units, rounded up."""
    return milli_value(quantity) if resource == "cpu" else whole_value(quantity)


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: amount_of(name, quantity) for name, quantity in (quantities or {}).items()}


def _requests(of: Mapping[str, Any]) -> dict[str, int]:
    return _amounts((of.get("resources") or {}).get("requests"))


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _toleration(toleration: Mapping[str, Any]) -> Toleration:
    operator = toleration.get("operator") or "Equal"
    key = toleration.get("key") or ""
    if operator not in ("Exists", "Equal"):
        key = f"{key} {operator}"  # an unknown operator tolerates nothing, because no taint has such a key
    return Toleration(key, toleration.get("value") or "", toleration.get("effect") or "", operator == "Exists")


def host_ports(spec: Mapping[str, Any]) -> tuple[Port, ...]:
    """Return the host ports that a pod uses."""
    return tuple(_ports(spec))


def _ports(spec: Mapping[str, Any]) -> Iterable[Port]:
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                address = port.get("hostIP") or ""
                yield Port(port.get("protocol") or "TCP", "" if address in _ANY_ADDRESS else address, number)


def _names(terms: tuple[Term, ...] | None) -> frozenset[str] | None:
    """Return the node names that every term requires, as in pods of DaemonSets, or None if a term has no such limit."""
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        named = [set(field.values) for field in term.fields if field.operator is Operator.IN]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names)
