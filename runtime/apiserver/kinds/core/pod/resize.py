"""Subresource pods/resize, which changes cpu and memory of an existing pod.

Source: kubernetes v1.36 pkg/registry/core/pod/strategy.go (podResizeStrategy), pkg/apis/core/validation/validation.go
(ValidatePodResize). Difference: declared features of nodes (NodeDeclaredFeatures) are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quality_of_service import quality_of_service
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid
from kcm.runtime.apiserver.kinds.pod_spec.annotations import MIRROR
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_spec

RESIZABLE = ("cpu", "memory")
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_PARTS = ("requests", "limits")


def prepare(new: Object, old: Object, _now: str) -> None:
    """Restore all fields of the old pod except resources and resizePolicy; increment the generation if they changed.

    A pod with added, removed or reordered containers is left unchanged, and `validate` rejects it.
    """
    spec, before = new["spec"], old["spec"]
    if not all(
        len(spec.get(field) or ()) == len(before.get(field) or ()) for field in ("containers", "initContainers")
    ):
        return
    kept = dict(before)
    for field in ("containers", "initContainers"):
        if field in before:
            kept[field] = _resized(spec[field], before[field])
    kept.pop("resources", None)
    if spec.get("resources") is not None:
        kept["resources"] = spec["resources"]
    new["spec"] = kept
    new["status"] = old["status"]
    new["metadata"] = {
        **{name: value for name, value in new["metadata"].items() if name not in _METADATA},
        **{name: old["metadata"][name] for name in _METADATA if name in old["metadata"]},
    }
    if kept != before:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _resized(new: list[Object], old: list[Object]) -> list[Object]:
    if any(container.get("name") != other.get("name") for container, other in zip(new, old, strict=True)):
        return new
    resized = []
    for container, other in zip(new, old, strict=True):
        kept = dict(other)
        for field in ("resources", "resizePolicy"):
            kept.pop(field, None)
            if field in container:
                kept[field] = container[field]
        resized.append(kept)
    return resized


def validate(new: Object, old: Object) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors = list(validate_pod_spec(spec, "spec"))
    status = old.get("status") or {}
    quality = status.get("qosClass") or quality_of_service(before)
    if quality != quality_of_service(spec):
        errors.append(
            invalid("spec", status.get("qosClass") or "", "Pod QOS Class may not change as a result of resizing")
        )
    if not _is_supported(status):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    masked = dict(spec)
    errors += _pod_level_errors(masked, before)
    if status.get("nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    reordered = list(_reordered_containers(spec, before))
    if reordered:
        return errors + reordered
    for field in ("initContainers", "containers"):
        for number, old_container in enumerate(before.get(field) or ()):
            path = f"spec.{field}[{number}].resources"
            errors += _removed(spec[field][number].get("resources"), old_container.get("resources"), path, "resource")
    for field in ("containers", "initContainers"):
        if field in before:
            masked[field] = [
                _masked(container, old_container)
                for container, old_container in zip(spec[field], before[field], strict=True)
            ]
            errors += _container_errors(field, masked[field], spec[field], before[field])
            masked[field] = before[field]
    if not errors and masked != before:
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _is_supported(status: Mapping[str, Any]) -> bool:
    """Report whether the kubelet of the pod supports resizing.

    Such a kubelet reports the resources of running containers in the status.
    """
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _pod_level_errors(masked: Object, before: Object) -> Iterator[FieldError]:
    """Yield errors for a change of pod-level resources (spec.resources).

    masked: the new spec; its pod-level cpu and memory are replaced by the old ones, so that later comparisons ignore
    them
    before: the old spec
    """
    own, old = masked.get("resources"), before.get("resources")
    if not any((resources or {}).get(part) for resources in (own, old) for part in _PARTS):
        return
    if old is not None and own is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    yield from _removed(own, old, "spec.resources", "pod-level resource")
    masked["resources"] = _with_old(own or {}, old or {})
    if old is None and not any(masked["resources"].get(part) for part in _PARTS):
        del masked["resources"]
    if masked.get("resources") != old:
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _reordered_containers(spec: Object, before: Object) -> Iterator[FieldError]:
    for field in ("containers", "initContainers"):
        now, then = spec.get(field) or [], before.get(field) or []
        if len(now) != len(then):
            yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for number, (container, other) in enumerate(zip(now, then, strict=True)):
            if container.get("name") != other.get("name"):
                yield forbidden(f"spec.{field}[{number}].name", f"{field} may not be renamed or reordered on resize")


def _removed(now: Object | None, then: Object | None, path: str, what: str) -> Iterator[FieldError]:
    for part in _PARTS:
        if ((then or {}).get(part) or {}).keys() - ((now or {}).get(part) or {}).keys():
            yield forbidden(f"{path}.{part}", f"{what} {part} cannot be removed")


def _masked(now: Object, then: Object) -> Object:
    """Return the new container `now` with the cpu and memory of the old one."""
    return {**now, "resources": _with_old(now.get("resources") or {}, then.get("resources") or {})}


def _with_old(now: Object, then: Object) -> Object:
    masked = {field: value for field, value in now.items() if field not in _PARTS}
    for part in _PARTS:
        others = {name: amount for name, amount in (now.get(part) or {}).items() if name not in RESIZABLE}
        old = {name: amount for name, amount in (then.get(part) or {}).items() if name in RESIZABLE}
        if others or old or part in then:
            masked[part] = {**others, **old}
    return masked


def _container_errors(field: str, masked: list[Object], now: list[Object], then: list[Object]) -> Iterator[FieldError]:
    for number, (container, new, old) in enumerate(zip(masked, now, then, strict=True)):
        if field == "containers":
            if container != _normalized(old):
                yield forbidden("spec", "only cpu and memory resources are mutable")
            continue
        path = f"spec.initContainers[{number}]"
        if container != _normalized(old):
            yield forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
        restarted = any(policy.get("restartPolicy") == "RestartContainer" for policy in new.get("resizePolicy") or ())
        if new != old and new.get("restartPolicy") != "Always" and restarted:
            because = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            yield forbidden(path, because)


def _normalized(container: Object) -> Object:
    """Normalize the resources of an old container like those of the result of _masked, for comparison with it."""
    return _masked(container, container)
