"""AlwaysPullImages: set imagePullPolicy to Always, so that the registry authorizes each use of an image.

Source: kubernetes plugin/pkg/admission/alwayspullimages/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.admission_plugins import ALWAYS_PULL_IMAGES
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def admit(cluster: Cluster, pod: Object, old: Object | None = None) -> None:
    """Set the pull policies of a new pod, or of an updated pod with additional images, in place."""
    if ALWAYS_PULL_IMAGES not in cluster.settings.plugins:
        return
    if old is not None and _images(pod) <= _images(old):
        return
    for field in _CONTAINERS:
        for container in pod["spec"].get(field) or ():
            container["imagePullPolicy"] = "Always"
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("image") is not None:
            volume["image"]["pullPolicy"] = "Always"


def _images(pod: Object) -> set[str]:
    spec = pod["spec"]
    images = {container.get("image") or "" for field in _CONTAINERS for container in spec.get(field) or ()}
    return images | {
        volume["image"].get("reference") or ""
        for volume in spec.get("volumes") or ()
        if volume.get("image") is not None
    }
