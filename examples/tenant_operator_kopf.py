"""The operator of tenant_operator.py written with kopf, for comparison.

kubectl apply -f examples/tenant-crd.yml -f examples/tenant.yml
kopf run examples/tenant_operator_kopf.py
"""

from contextlib import suppress
from typing import Any

import kopf
from directory import Directory
from kopf_objects import Api, apply, follow_dependents, get, is_owned, report
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

RBAC = "rbac.authorization.k8s.io"
SOON = 1.0  # seconds
LABEL = "tenant"  # of objects that belong to a tenant


@kopf.on.startup()
def start(memo: kopf.Memo, **_: Any) -> None:
    memo.setdefault("directory", Directory())
    memo.api = Api(
        tenants=("example.com/v1", "Tenant"),
        namespaces=("v1", "Namespace"),
        quotas=("v1", "ResourceQuota"),
        bindings=(f"{RBAC}/v1", "RoleBinding"),
    )


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
        report(memo.api.tenants, tenant, status, *verdict)
    if verdict[0] != "True":
        raise kopf.TemporaryError(verdict[2], delay=SOON)


@kopf.on.delete("example.com", "v1", "tenants")
def leave(name: str, uid: str, memo: kopf.Memo, **_: Any) -> None:
    if not memo.directory.close(uid):
        raise kopf.TemporaryError(f"the account of {name} is not closed yet", delay=SOON)


RESOURCES = (("v1", "namespaces"), ("v1", "resourcequotas"), (RBAC, "v1", "rolebindings"))
follow_dependents(lambda memo: memo.api.tenants, LABEL, *RESOURCES)


def provide(api: Api, tenant: Any, name: str) -> bool:
    """Create a namespace with its contents. False if it has another owner or is being deleted."""
    found = get(api.namespaces, name)
    if found is not None and (
        not is_owned(found, tenant["metadata"]["uid"]) or found["metadata"].get("deletionTimestamp")
    ):
        return False
    admins = [{"apiGroup": RBAC, "kind": "User", "name": who} for who in tenant["spec"]["admins"]]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
    apply(api.namespaces, name, None, tenant, LABEL)
    apply(api.quotas, "tenant", name, tenant, LABEL, spec={"hard": tenant["spec"].get("quota", {})})
    apply(api.bindings, "tenant", name, tenant, LABEL, subjects=admins, roleRef=role)
    return True


def tidy(api: Api, uid: str, wanted: list[str]) -> None:
    for namespace in api.namespaces.get(label_selector=LABEL).to_dict()["items"]:
        meta = namespace["metadata"]
        if is_owned(namespace, uid) and meta["name"] not in wanted and "deletionTimestamp" not in meta:
            with suppress(NotFoundError, ConflictError):
                api.namespaces.delete(name=meta["name"], body={"preconditions": {"uid": meta["uid"]}})
