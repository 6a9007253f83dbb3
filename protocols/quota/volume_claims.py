"""Evaluator of PersistentVolumeClaims, which counts claims and storage, in total and per storage class.

Source: kubernetes v1.36 pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.quantities import Quantity, whole_value
from kcm.protocols.quota import scopes
from kcm.protocols.quota.amounts import ONE, Amounts, read_amounts
from kcm.protocols.quota.evaluators import CREATE, UPDATE, Evaluator
from kcm.protocols.quota.names import count_of
from kcm.protocols.quota.scopes import ScopeRequirement

CLAIMS, STORAGE = "persistentvolumeclaims", "requests.storage"
OF_CLASS = ".storageclass.storage.k8s.io/"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class VolumeClaims(Evaluator):
    needs_objects = has_essence = True

    def __init__(self) -> None:
        super().__init__(CLAIMS)

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(
            name
            for name in names
            if name in (count_of(CLAIMS), CLAIMS, STORAGE) or name.endswith((OF_CLASS + CLAIMS, OF_CLASS + STORAGE))
        )

    def usage(self, obj: Object, /) -> Amounts:
        class_ = _class_of(obj)
        used = {CLAIMS: ONE, count_of(CLAIMS): ONE}
        if class_:
            used[class_ + OF_CLASS + CLAIMS] = ONE
        storage = _storage(obj)
        if storage is not None:
            used[STORAGE] = storage
            if class_:
                used[class_ + OF_CLASS + STORAGE] = storage
        return used

    def essence(self, obj: Object, /) -> Object:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        beta = annotations_of(obj).get(BETA_CLASS)
        of_spec = ("storageClassName", "resources", "volumeAttributesClassName")
        of_status = ("allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus")
        return {
            "metadata": {} if beta is None else {"annotations": {BETA_CLASS: beta}},
            "spec": {name: spec[name] for name in of_spec if name in spec},
            "status": {name: status[name] for name in of_status if name in status},
        }

    def meets(self, obj: Object, scope: ScopeRequirement, /) -> bool:
        return scope.name == scopes.VOLUME_ATTRIBUTES_CLASS and scope.selects(attributes_classes(obj))

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None, /) -> bool:
        if subresource == "status":
            return old is not None and concerns_quotas(new, old)
        return operation in (CREATE, UPDATE) and not subresource


def concerns_quotas(new: Object, old: Object) -> bool:
    """Report whether an update changes the usage, or the scopes that apply.

    Difference: upstream compares pointers to the allocated storage, so that every update counts as a change.
    """
    return _allocated(new) != _allocated(old) or attributes_classes(new) != attributes_classes(old)


def attributes_classes(claim: Object) -> frozenset[str]:
    """Return the requested, current and target VolumeAttributesClasses of a claim."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return frozenset(name for name in names if name)


def _class_of(claim: Object) -> str:
    annotations = annotations_of(claim)
    if BETA_CLASS in annotations:
        return annotations[BETA_CLASS]
    return (claim.get("spec") or {}).get("storageClassName") or ""


def _allocated(claim: Object) -> Quantity | None:
    return read_amounts((claim.get("status") or {}).get("allocatedResources")).get("storage")


def _storage(claim: Object) -> Quantity | None:
    """Return the larger of requested and allocated storage, in whole bytes."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    asked = read_amounts(resources.get("requests")).get("storage")
    if asked is None:
        return None
    given = _allocated(claim)
    most = given if given is not None and given.value > asked.value else asked
    return (
        most if most.value == most.value.to_integral_value() else Quantity(Decimal(whole_value(most.value)), most.form)
    )
