"""Provisioner for kubemark's nodes, with a default StorageClass.

Kubemark has no CSI driver, but upstream's plugin for hostPath, which mounts in appearance. So claims get the volumes of
the hollow provisioner, with hostPath as the source.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

from kcm.actors.hollow.provisioner import CLASS, NAME, classes, is_ours, volume_for
from kcm.protocols.objects import Object, annotations_of, is_deleting, metadata, name_of
from kcm.protocols.volumes import PROVISIONED_BY, class_of, phase_of, volume_name_of
from tests.e2e.kubectl import Api

GLANCE = 0.5  # seconds between two lists of the claims
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def volume_of(claim: Object) -> Object | None:
    """Return the volume to create for a claim, or None if the claim has one or is another provisioner's."""
    if not is_ours(claim) or class_of(claim) != CLASS or volume_name_of(claim) or is_deleting(claim):
        return None
    volume = volume_for(claim, classes()[0], zone="")
    spec = {field: value for field, value in volume["spec"].items() if field != "csi"}
    meta = {field: value for field, value in metadata(volume).items() if field != "finalizers"}
    return {"metadata": meta, "spec": {**spec, "hostPath": {"path": f"/volumes/{name_of(volume)}"}}}


def is_released(volume: Object) -> bool:
    """Report whether the claim of one of our volumes was deleted."""
    ours = annotations_of(volume).get(PROVISIONED_BY) == NAME
    return ours and phase_of(volume) == "Released" and not is_deleting(volume)


@contextmanager
def provisioning(kubeconfig: Path) -> Iterator[None]:
    """Create the class, then provision until the end of the block."""
    api, over = Api(kubeconfig), threading.Event()
    api.request("POST", CLASSES, classes()[0])
    thread = threading.Thread(target=_provision, args=(api, over), name="provisioner")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60.0)


def _provision(api: Api, over: threading.Event) -> None:
    while not over.wait(GLANCE):
        try:
            for claim in api.get(CLAIMS)["items"]:
                if volume := volume_of(claim):
                    _unless_done(api, "POST", VOLUMES, volume)
            for volume in api.get(VOLUMES)["items"]:
                if is_released(volume):
                    _unless_done(api, "DELETE", f"{VOLUMES}/{name_of(volume)}")
        except OSError:
            continue  # the server is ending


def _unless_done(api: Api, method: str, path: str, body: Object | None = None) -> None:
    """Send a write whose effect may be there already."""
    try:
        api.request(method, path, body)
    except HTTPError as err:
        if err.code not in (404, 409):
            raise
