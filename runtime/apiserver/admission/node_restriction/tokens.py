"""Rules for kubelets that request service account tokens: only for their own pods, and for audiences of their volumes.

Source: kubernetes plugin/pkg/admission/noderestriction/admission.go (admitServiceAccount, podReferencesAudience),
csi-translation-lib plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.errors import aggregate
from kcm.protocols.objects import Object, make_key, name_of, uid_of
from kcm.runtime.apiserver.admission.attributes import CREATE
from kcm.runtime.apiserver.admission.node_restriction.kubelet_request import KubeletRequest
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.users import Access

# CSI drivers that in-tree volume sources are migrated to, in pods and in PersistentVolumes.
_DRIVERS = {
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "cinder": "cinder.csi.openstack.org",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}


def admit(request: KubeletRequest) -> None:
    """Check that a TokenRequest of a kubelet is bound to one of its pods, and that a volume of it needs the audience.

    Raises StatusError (403, 404).
    """
    if request.operation != CREATE or request.subresource != "token" or request.new is None:
        return
    spec = request.new.get("spec") or {}
    bound = spec.get("boundObjectRef") or {}
    if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
        raise request.refusal("node requested token not bound to a pod")
    uid = bound.get("uid")
    if not uid:
        raise request.refusal("node requested token with a pod binding without a uid")
    pod = request.pod(bound["name"])
    if uid != uid_of(pod):
        raise request.refusal(
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have "
            "been deleted and then recreated"
        )
    if (pod["spec"].get("nodeName") or "") != request.node:
        raise request.refusal("node requested token bound to a pod scheduled on a different node")
    _check_audience(request, pod, spec.get("audiences") or [])


def _check_audience(request: KubeletRequest, pod: Object, audiences: list[str]) -> None:
    if len(audiences) > 1:
        raise request.refusal("node may only request 0 or 1 audiences")
    audience = audiences[0] if audiences else ""
    missing: list[str] = []
    for volume in pod["spec"].get("volumes") or ():
        try:
            if audience in _audiences(request, pod, volume):
                return
        except StatusError as err:
            missing.append(err.message)
    if missing:
        raise request.refusal(f"error validating audience {quoted(audience)}: {aggregate(missing)}")
    user = request.call.user
    wanted = {
        "verb": "request-serviceaccounts-token-audience",
        "namespace": request.call.route.namespace,
        "version": "v1",
        "resource": audience,
        "name": request.name,
    }
    if not request.cluster.authorize(Access(user, wanted)).allowed:
        raise request.refusal(
            f"audience {quoted(audience)} not found in pod spec volume, {user.name} is not authorized to request "
            "tokens for this audience"
        )


def _audiences(request: KubeletRequest, pod: Object, volume: Mapping[str, Any]) -> set[str]:
    """Return the audiences of the tokens that a volume mounts: projected, or requested by its CSI driver.

    Raises StatusError (404) if the claim, volume or driver does not exist.
    """
    found = {
        source["serviceAccountToken"].get("audience") or ""
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken") is not None
    }
    driver = _driver(request, pod, volume)
    if driver:
        known = request.stored_object("csidriver", "csidrivers.storage.k8s.io", driver)
        found |= {token.get("audience") or "" for token in (known.get("spec") or {}).get("tokenRequests") or ()}
    return found


def _driver(request: KubeletRequest, pod: Object, volume: Mapping[str, Any]) -> str:
    """Return the name of the CSI driver of a pod's volume; "" if it has none. Raises StatusError (404)."""
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
        return _driver_of_claim(request, f"{name_of(pod)}-{volume['name']}")
    if volume.get("persistentVolumeClaim") is not None:
        return _driver_of_claim(request, volume["persistentVolumeClaim"].get("claimName") or "")
    return _driver_of_source(volume)


def _driver_of_claim(request: KubeletRequest, name: str) -> str:
    key = make_key(request.call.route.namespace, name)
    claim = request.stored_object("persistentvolumeclaim", "persistentvolumeclaims", key)
    volume = request.stored_object("persistentvolume", "persistentvolumes", claim["spec"].get("volumeName") or "")
    return _driver_of_source(volume["spec"])


def _driver_of_source(source: Mapping[str, Any]) -> str:
    if source.get("csi") is not None:
        return source["csi"].get("driver") or ""
    return next((driver for field, driver in _DRIVERS.items() if source.get(field) is not None), "")
