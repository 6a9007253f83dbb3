"""ServiceAccount: assign service accounts to pods, and mount tokens of the account into their containers.

If the plugin is disabled, a pod without an account is still assigned the account "default".

Source: kubernetes plugin/pkg/admission/serviceaccount/admission.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.admission_plugins import SERVICE_ACCOUNT
from kcm.protocols.mounted_secrets import secret_names
from kcm.protocols.objects import Object, annotations_of, name_of
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Delay
from kcm.runtime.apiserver.storage.state import to_read

DEFAULT = "default"
ACCOUNTS = "serviceaccounts"
VOLUME_PREFIX = "kube-api-access-"
# The service account controller may not have created the default account of a new namespace yet.
PAUSE, PAUSES = 0.15, 9  # seconds and retries; upstream draws 0.1 to 0.2 s for each request
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607  # requested lifetime; servers extend it to a year, and report the use of older tokens
ENFORCE = "kubernetes.io/enforce-mountable-secrets"  # annotation of an account
_TRUE = ("1", "t", "T", "true", "TRUE", "True")  # Go's strconv.ParseBool
MIRROR = "kubernetes.io/config.mirror"  # annotation of a mirror pod, which represents a static pod of a kubelet


def admit_create(cluster: Cluster, pod: Object) -> None:
    """Set the account, token volume and imagePullSecrets of a new pod, in place. Raises StatusError (403)."""
    spec = pod["spec"]
    if SERVICE_ACCOUNT not in cluster.settings.plugins:
        if not spec.get("serviceAccountName") and MIRROR not in annotations_of(pod):
            spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
        return
    if MIRROR in annotations_of(pod):
        _check_mirror(pod)
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
    account = _account(cluster, pod)
    if _mounts_token(account, spec):
        _mount_token(cluster, spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": name_in(reference)} for reference in account["imagePullSecrets"]]
    _check_references(account, pod)


def check_create(cluster: Cluster, pod: Object) -> None:
    """Check the account and the secrets of a new pod, after all mutating plugins have run. Raises StatusError (403)."""
    if SERVICE_ACCOUNT not in cluster.settings.plugins:
        return
    if MIRROR in annotations_of(pod):
        _check_mirror(pod)
        return
    if not pod["spec"].get("serviceAccountName"):
        where = f"{pod['metadata']['namespace']}/{name_of(pod)}"
        raise forbidden("", "pods", pod, f"no service account specified for pod {where}")
    _check_references(_account(cluster, pod), pod)


def _account(cluster: Cluster, pod: Object) -> Object:
    """Return the service account of a pod. Raises StatusError (403) if it does not exist.

    If the account "default" is missing, the request waits, because it is created soon after its namespace.
    """
    key = f"{pod['metadata']['namespace']}/{pod['spec']['serviceAccountName']}"
    record, name = cluster.state.get(ACCOUNTS, key), pod["spec"]["serviceAccountName"]
    if record is None and name == DEFAULT:
        for number in range(PAUSES):
            cluster.outside((Delay(PAUSE, number),))
    if record is None:
        because = f'error looking up service account {key}: serviceaccount "{name}" not found'
        raise forbidden("", "pods", pod, because)
    return to_read(record.raw)


def _check_mirror(pod: Object) -> None:
    if pod["spec"].get("serviceAccountName"):
        raise forbidden("", "pods", pod, "a mirror pod may not reference service accounts")
    if secret_names(pod):
        raise forbidden("", "pods", pod, "a mirror pod may not reference secrets")
    for volume in pod["spec"].get("volumes") or ():
        if any("serviceAccountToken" in source for source in (volume.get("projected") or {}).get("sources") or ()):
            because = "a mirror pod may not use ServiceAccountToken volume projections"
            raise forbidden("", "pods", pod, because)


def _mounts_token(account: Object, spec: Object) -> bool:
    """Report whether to mount a token; the pod's setting takes precedence over the account's."""
    wanted = spec.get("automountServiceAccountToken")
    return bool(account.get("automountServiceAccountToken", True) if wanted is None else wanted)


def _mount_token(cluster: Cluster, spec: Object) -> None:
    """Add a token volume, and mount it into each container that has no mount at MOUNT_PATH."""
    volumes = spec.get("volumes") or []
    own = next((volume["name"] for volume in volumes if volume.get("name", "").startswith(VOLUME_PREFIX)), "")
    name = own or VOLUME_PREFIX + cluster.suffix()
    mounted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
            mounted = True
    if mounted and not own:
        spec["volumes"] = [*volumes, _token_volume(name)]


def _token_volume(name: str) -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources: list[Object] = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": authority},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _check_references(account: Object, pod: Object) -> None:
    """Check that a pod uses only secrets that its account lists, if the account has the annotation ENFORCE.

    Raises StatusError (403).
    """
    if annotations_of(account).get(ENFORCE) in _TRUE:
        for because in _unlisted_secrets(account, pod["spec"]):
            raise forbidden("", "pods", pod, because)


def _unlisted_secrets(account: Object, spec: Object) -> Iterator[str]:
    names = {name_in(reference) for reference in account.get("secrets") or ()}
    lacking = f"because service account {name_of(account)} does not reference that"
    for volume in spec.get("volumes") or ():
        source = volume.get("secret")
        if source is not None and source.get("secretName", "") not in names:
            yield f'volume with secret.secretName="{source.get("secretName", "")}" is not allowed {lacking} secret'
    for field, what in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(field) or ():
            for how, name in _container_secrets(container):
                if name not in names:
                    where = f"{what} {container['name']} with {how}"
                    yield f'{where} referencing secret.secretName="{name}" is not allowed {lacking} secret'
    pulled_with = {name_in(reference) for reference in account.get("imagePullSecrets") or ()}
    for index, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if name_in(reference) not in pulled_with:
            yield f'imagePullSecrets[{index}].name="{name_in(reference)}" is not allowed {lacking} imagePullSecret'


def _container_secrets(container: Object) -> Iterator[tuple[str, str]]:
    """Yield (source, Secret name) for each Secret in a container's environment. Source: "envFrom" or "envVar NAME"."""
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield f"envVar {variable['name']}", name_in(reference)
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield "envFrom", name_in(source["secretRef"])


def name_in(reference: dict[str, Any]) -> str:
    return reference.get("name") or ""
