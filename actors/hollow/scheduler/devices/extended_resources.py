"""Extended resources that are provided by devices, and the claim that the scheduler creates for a pod with them.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go;
staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.generated_names import lasting_name
from kcm.protocols.objects import Key, Object, metadata, name_of, namespace_of, owner_reference
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.quota.names import DEVICE_CLASS, is_counted_in_pods
from kcm.protocols.resource_claims import EXTENDED_RESOURCE_CLAIM
from kcm.protocols.times import parse_time


def extended_names(pod: Mapping[str, Any]) -> set[str]:
    """Return the resources that containers of the pod request, and that devices may provide."""
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {
        name
        for container in containers
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items()
        if "/" in name and is_counted_in_pods(name) and parse_quantity(amount) > 0
    }


def classes_by_resource(classes: Iterable[Object]) -> dict[str, str]:
    """Return the name of the DeviceClass that provides each extended resource.

    Of several classes for one extended resource the newest is chosen, and of equally old ones the one with the lowest
    name.
    """
    found: dict[str, str] = {}
    by_name = sorted(classes, key=name_of, reverse=True)
    for device_class in sorted(by_name, key=_created):
        found[f"{DEVICE_CLASS}{name_of(device_class)}"] = name_of(device_class)
        extended = (device_class.get("spec") or {}).get("extendedResourceName")
        if extended:
            found[extended] = name_of(device_class)
    return found


def _created(device_class: Object) -> float:
    stamp = metadata(device_class).get("creationTimestamp")
    return parse_time(stamp) if stamp else 0.0


def is_extended_claim(claim: Mapping[str, Any]) -> bool:
    return (metadata(claim).get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"


def new_claim(pod: Object, requests: Sequence[Object], *, taken: Callable[[Key], bool]) -> Object:
    """Build the claim of a pod for these device requests. Equal arguments give claims of the same name."""
    base = f"{name_of(pod)}-extended-resources-"
    owner = owner_reference(pod, api_version="v1", kind="Pod")
    return {
        "metadata": {
            "name": lasting_name(pod, "extended resources", base=base, taken=taken),
            "generateName": base,
            "namespace": namespace_of(pod),
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [{name: value for name, value in owner.items() if name != "blockOwnerDeletion"}],
        },
        "spec": {"devices": {"requests": list(requests)}},
    }


class ExtendedRequests(NamedTuple):
    """Device requests of a pod's extended resources, and the requests that each container uses.

    mappings: items of status.extendedResourceClaimStatus.requestMappings.
    """

    requests: Sequence[Object]
    mappings: Sequence[Object]


class _Wanted(NamedTuple):
    """Device request that a container needs in addition to those that it reuses, and the requests that it uses."""

    request: Object | None
    mappings: list[Object]


def extended_requests(
    pod: Mapping[str, Any], resources: Collection[str], class_of: Callable[[str], str]
) -> ExtendedRequests:
    """Return the device requests for these extended resources of a pod.

    Init containers run one after another, before the containers that follow them. So they use the devices of those,
    and share one request for more.

    class_of: returns the name of the DeviceClass that provides a resource; "" if there is none.
    """
    spec = pod["spec"]
    initial = len(spec.get("initContainers") or ())
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    stays = [
        number >= initial or container.get("restartPolicy") == "Always" for number, container in enumerate(containers)
    ]
    requests: list[Object] = []
    mappings: list[Object] = []
    for resource in sorted(resources):
        device_class = class_of(resource)
        if not device_class:
            continue
        lasting: list[Object | None] = [None] * len(containers)
        for number, container in enumerate(containers):
            if stays[number]:
                wanted = _wanted(number, container, resource, device_class, ())
                lasting[number] = wanted.request
                mappings += wanted.mappings
        most: Object | None = None
        passing: list[Object] = []
        replaced: set[str] = set()
        for number, container in enumerate(containers):
            if not stays[number]:
                wanted = _wanted(number, container, resource, device_class, lasting[number:])
                passing += wanted.mappings
                if wanted.request is not None:
                    replaced.add(wanted.request["name"])
                    if most is None or most["exactly"]["count"] < wanted.request["exactly"]["count"]:
                        most = wanted.request
        if most is not None:
            requests.append(most)
            for mapping in passing:
                if mapping["requestName"] in replaced:
                    mapping["requestName"] = most["name"]
        requests += [request for request in lasting if request is not None]
        mappings += passing
    return ExtendedRequests(sorted(requests, key=lambda request: request["name"]), mappings)


def _wanted(
    number: int, container: Mapping[str, Any], resource: str, device_class: str, reusable: Sequence[Object | None]
) -> _Wanted:
    amounts = (container.get("resources") or {}).get("requests") or {}
    amount = parse_quantity(amounts.get(resource) or 0)
    missing = int(amount)
    if not missing or missing != amount:
        return _Wanted(None, [])
    mappings: list[Object] = []

    def use(request: str) -> None:
        mappings.append({"containerName": container["name"], "resourceName": resource, "requestName": request})

    for request in reusable:
        if request is not None:
            missing -= request["exactly"]["count"]
            use(request["name"])
            if missing <= 0:
                return _Wanted(None, mappings)
    name = f"container-{number}-request-{sorted(amounts).index(resource)}"
    use(name)
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": missing}
    return _Wanted({"name": name, "exactly": exactly}, mappings)
