"""The operator of tenant_operator.py written with kopf, for comparison.

kubectl apply -f examples/tenant-crd.yml -f examples/tenant.yml
kopf run examples/tenant_operator_kopf.py
"""

import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import kopf
from directory import Directory
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

MERGE = "application/merge-patch+json"
RBAC = "rbac.authorization.k8s.io"
SOON = 1.0  # seconds
LABELS = {"tenant": kopf.PRESENT}  # selects objects that belong to a tenant


class Api:
    """Official client, for objects other than the one that a handler receives, which kopf does not cover."""

    def __init__(self) -> None:
        config.load_config(config_file=os.environ.get("KUBECONFIG"))
        dynamic = DynamicClient(client.ApiClient())
        self.tenants = dynamic.resources.get(api_version="example.com/v1", kind="Tenant")
        self.namespaces = dynamic.resources.get(api_version="v1", kind="Namespace")
        self.quotas = dynamic.resources.get(api_version="v1", kind="ResourceQuota")
        self.bindings = dynamic.resources.get(api_version=f"{RBAC}/v1", kind="RoleBinding")
        self.lock = threading.Lock()  # handlers of one tenant may run side by side


def get(kind: Any, name: str) -> Any:
    with suppress(NotFoundError):
        return kind.get(name=name).to_dict()
    return None


def apply(kind: Any, name: str, namespace: str | None, tenant: Any, **fields: Any) -> None:
    body = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": name}, **fields}
    kopf.append_owner_reference(body, owner=tenant)
    kopf.label(body, {"tenant": tenant["metadata"]["name"]})
    kind.server_side_apply(body=body, name=name, namespace=namespace, field_manager="tenants", force_conflicts=True)


def is_owned(obj: Any, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", []))


@kopf.on.startup()
def start(memo: kopf.Memo, **_: Any) -> None:
    memo.setdefault("directory", Directory())
    memo.api = Api()


@kopf.on.login()
def login(**arguments: Any) -> Any:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create("example.com", "v1", "tenants")
@kopf.on.update("example.com", "v1", "tenants")
@kopf.on.resume("example.com", "v1", "tenants")
def follow(name: str, uid: str, memo: kopf.Memo, **_: Any) -> None:
    with memo.api.lock:
        tenant = get(memo.api.tenants, name)
        if tenant is None or tenant["metadata"]["uid"] != uid or "deletionTimestamp" in tenant["metadata"]:
            return
        spec, generation = tenant["spec"], tenant["metadata"]["generation"]
        account = memo.directory.enrol(uid, name, spec["admins"], generation)
        wanted = [f"{name}-{each}" for each in spec["namespaces"]]
        have = [each for each in wanted if provide(memo.api, tenant, each)]
        tidy(memo.api, uid, wanted)
        if missing := sorted({*wanted} - {*have}):
            verdict = ("False", "NameTaken", f"there is a namespace that is not ours: {', '.join(missing)}")
        elif not account["open"]:
            verdict = ("False", "AccountOpening", f"account {account['number']} is not open yet")
        else:
            verdict = ("True", "Provided", f"account {account['number']}, {len(have)} namespaces")
        status = {"observedGeneration": generation, "account": account["number"], "namespaces": sorted(have)}
        report(memo.api, tenant, status, *verdict)
    if verdict[0] != "True":
        raise kopf.TemporaryError(verdict[2], delay=SOON)


@kopf.on.delete("example.com", "v1", "tenants")
def leave(name: str, uid: str, memo: kopf.Memo, **_: Any) -> None:
    if not memo.directory.close(uid):
        raise kopf.TemporaryError(f"the account of {name} is not closed yet", delay=SOON)


@kopf.on.event("v1", "namespaces", labels=LABELS)
@kopf.on.event("v1", "resourcequotas", labels=LABELS)
@kopf.on.event(RBAC, "v1", "rolebindings", labels=LABELS)
def requeue(event: Any, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    """Annotate the tenant, which calls its handlers. kopf retries those if they fail, but not handlers of events."""
    if event["type"] in ("MODIFIED", "DELETED"):
        mark = {"example.com/look-again": f"{body['kind']} {body['metadata']['resourceVersion']}"}
        for owner in body["metadata"].get("ownerReferences", []):
            patch = {"metadata": {"uid": owner["uid"], "annotations": mark}}
            with suppress(NotFoundError, ConflictError):  # it was deleted, or another tenant has its name
                memo.api.tenants.patch(body=patch, name=owner["name"], content_type=MERGE)


def provide(api: Api, tenant: Any, name: str) -> bool:
    """Create a namespace with its contents. False if it has another owner or is being deleted."""
    found = get(api.namespaces, name)
    if found is not None and (
        not is_owned(found, tenant["metadata"]["uid"]) or found["metadata"].get("deletionTimestamp")
    ):
        return False
    admins = [{"apiGroup": RBAC, "kind": "User", "name": who} for who in tenant["spec"]["admins"]]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
    apply(api.namespaces, name, None, tenant)
    apply(api.quotas, "tenant", name, tenant, spec={"hard": tenant["spec"].get("quota", {})})
    apply(api.bindings, "tenant", name, tenant, subjects=admins, roleRef=role)
    return True


def tidy(api: Api, uid: str, wanted: list[str]) -> None:
    for namespace in api.namespaces.get(label_selector="tenant").to_dict()["items"]:
        meta = namespace["metadata"]
        if is_owned(namespace, uid) and meta["name"] not in wanted and "deletionTimestamp" not in meta:
            with suppress(NotFoundError, ConflictError):
                api.namespaces.delete(name=meta["name"], body={"preconditions": {"uid": meta["uid"]}})


def report(api: Api, tenant: Any, changes: dict[str, Any], ready: str, reason: str, message: str) -> None:
    status = tenant.get("status") or {}
    before: dict[str, Any] = next(iter(status.get("conditions", [])), {})
    since = before["lastTransitionTime"] if before.get("status") == ready else f"{datetime.now(UTC):%FT%TZ}"
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message, "lastTransitionTime": since}
    changes |= {"conditions": [{**condition, "observedGeneration": changes["observedGeneration"]}]}
    if {**status, **changes} != status:
        body = {"metadata": {"uid": tenant["metadata"]["uid"]}, "status": changes}
        api.tenants.status.patch(body=body, name=tenant["metadata"]["name"], content_type=MERGE)
        kopf.event(tenant, type="Normal" if ready == "True" else "Warning", reason=reason, message=message)
