"""DefaultStorageClass and DefaultIngressClass: assign the newest default class to claims and Ingresses without a class.

Source: kubernetes plugin/pkg/admission/storage/storageclass/setdefault/admission.go,
plugin/pkg/admission/network/defaultingressclass/admission.go, pkg/volume/util/storageclass.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.admission_plugins import DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS
from kcm.protocols.objects import Object, annotations_of, name_of
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

CLAIMS, STORAGE_CLASSES = "persistentvolumeclaims", "storageclasses.storage.k8s.io"
INGRESSES, INGRESS_CLASSES = "ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io"
_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Assign the default class to a new claim or Ingress, in place."""
    if definition.storage == CLAIMS and DEFAULT_STORAGE_CLASS in cluster.settings.plugins:
        _set_default_class(
            cluster, obj, "storageClassName", "volume.beta.kubernetes.io/storage-class", STORAGE_CLASSES, _STORAGE
        )
    elif definition.storage == INGRESSES and DEFAULT_INGRESS_CLASS in cluster.settings.plugins:
        _set_default_class(cluster, obj, "ingressClassName", "kubernetes.io/ingress.class", INGRESS_CLASSES, _INGRESS)


def _set_default_class(
    cluster: Cluster, obj: Object, field: str, annotation: str, classes: str, marks: tuple[str, ...]
) -> None:
    """Set the class of a new object to the default class, in place, unless the object names a class.

    field, annotation: field of the spec and annotation that may name a class
    classes: resource of the classes in the store, such as "storageclasses.storage.k8s.io"
    marks: annotations that mark a default class with the value "true"
    """
    if obj["spec"].get(field) is not None or annotation in annotations_of(obj):
        return
    defaults = [
        class_
        for class_ in cluster.objects(classes)
        if any(annotations_of(class_).get(mark) == "true" for mark in marks)
    ]
    if defaults:
        newest = min(
            defaults, key=lambda class_: (-parse_time(class_["metadata"]["creationTimestamp"]), name_of(class_))
        )
        obj["spec"][field] = name_of(newest)
