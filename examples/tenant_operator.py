"""Tenant operator: a Tenant has an account in an external directory, and namespaces with a quota and admins.

kubectl apply -f examples/tenant-crd.yml -f examples/tenant.yml
python examples/tenant_operator.py --kubeconfig ~/.kube/config
run-kcm manifests --name tenant-operator examples/tenant_operator.py:tenant_spec
"""

import sys
from pathlib import Path
from typing import Any

from directory import Directory

from kcm import (
    ControllerSpec,
    Key,
    Object,
    Queue,
    Reconciliation,
    RequeueAfter,
    Resource,
    Watch,
    main,
)
from kcm.commands import delete, record
from kcm.manifests import DefinitionFile, Permission
from kcm.objects import controlled_by, is_deleting, key_of, name_of, own, owned, set_condition, uid_of
from kcm.specs import ControllerContext, its_controller, itself
from kcm.steps import Step, call, ensure, finalize, must, patch_status

RBAC = "rbac.authorization.k8s.io"
TENANTS = Resource(group="example.com", version="v1", plural="tenants", kind="Tenant", namespaced=False)
NAMESPACES = Resource(version="v1", plural="namespaces", kind="Namespace", namespaced=False)
QUOTAS = Resource(version="v1", plural="resourcequotas", kind="ResourceQuota")
BINDINGS = Resource(group=RBAC, version="v1", plural="rolebindings", kind="RoleBinding")
CLUSTER_ROLES = Resource(group=RBAC, version="v1", plural="clusterroles", kind="ClusterRole", namespaced=False)
ACCOUNT = "example.com/account"  # the finalizer
SOON = RequeueAfter(1.0)  # no event reports that an account is open or a name is free


class Tenants:
    def __init__(self, context: ControllerContext, directory: Directory) -> None:
        tables = context.tables
        self._tenants, self._namespaces, self._quotas = tables[TENANTS], tables[NAMESPACES], tables[QUOTAS]
        self._bindings, self._clock, self._directory = tables[BINDINGS], context.clock, directory

    def reconcile(self, key: Key) -> Reconciliation:
        tenant = yield from finalize(self._tenants, key, ACCOUNT, self._directory.close, timeout=10)
        if tenant is None:
            return None
        admins, generation = tenant["spec"]["admins"], tenant["metadata"]["generation"]
        account = yield from call(self._directory.enrol, uid_of(tenant), key, admins, generation, timeout=10)
        wanted = [f"{key}-{name}" for name in tenant["spec"]["namespaces"]]
        have = yield from self._provide(tenant, wanted)
        yield from self._tidy(tenant, wanted)
        status = {"account": account["number"], "namespaces": sorted(have), "observedGeneration": generation}
        if missing := sorted({*wanted} - {*have}):
            yield from self._report(tenant, status, False, "NameTaken", f"not its own, or going: {', '.join(missing)}")
        elif not account["open"]:
            yield from self._report(tenant, status, False, "AccountOpening", f"account {account['number']} opens soon")
        else:
            yield from self._report(tenant, status, True, "Provided", f"{len(have)} namespaces, and an account")
            return None
        return SOON

    def _provide(self, tenant: Object, wanted: list[str]) -> Step[list[str]]:
        """Create the wanted namespaces with their contents, and return those that the tenant owns.

        Namespaces of other owners, and those that are being deleted, are not changed.
        """
        users = [{"apiGroup": RBAC, "kind": "User", "name": name} for name in tenant["spec"]["admins"]]
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
        have: list[str] = []
        for name in wanted:
            there = self._namespaces.get(name)
            if there is not None and (is_deleting(there) or not controlled_by(there, tenant)):
                continue
            quota = {"metadata": {"name": "tenant", "namespace": name}, "spec": {"hard": tenant["spec"].get("quota")}}
            binding = {"metadata": {"name": "tenant", "namespace": name}, "subjects": users, "roleRef": role}
            yield from ensure(self._namespaces, own({"metadata": {"name": name}}, by=tenant, of=TENANTS))
            yield from ensure(self._quotas, own(quota, by=tenant, of=TENANTS))
            yield from ensure(self._bindings, own(binding, by=tenant, of=TENANTS))
            have.append(name)
        return have

    def _tidy(self, tenant: Object, wanted: list[str]) -> Step[None]:
        for namespace in owned(self._namespaces, by=tenant):
            if name_of(namespace) not in wanted and not is_deleting(namespace):
                yield from must(delete(NAMESPACES, key_of(namespace), uid=uid_of(namespace)))

    def _report(self, tenant: Object, status: dict[str, Any], ready: bool, reason: str, message: str) -> Step[None]:
        present, now = tenant.get("status", {}).get("conditions"), self._clock.now()
        generation = status["observedGeneration"]
        conditions = set_condition(present, "Ready", ready, reason, message, now=now, observed_generation=generation)
        yield from patch_status(self._tenants, tenant, {**status, "conditions": conditions})
        if conditions != present:
            yield record(TENANTS, tenant, "Normal" if ready else "Warning", reason, message)


PERMISSIONS = (
    Permission(TENANTS, ("patch",)),  # for the finalizer
    Permission(TENANTS, ("patch",), "status"),
    Permission(NAMESPACES, ("ensure", "delete")),
    Permission(QUOTAS, ("ensure",)),
    Permission(BINDINGS, ("ensure",)),
    Permission(CLUSTER_ROLES, ("bind",), names=("admin",)),  # to grant more than it may do itself
)


def tenant_spec(directory: Directory | None = None) -> ControllerSpec:
    """Return the controller. directory: None for one in memory."""
    known = directory or Directory()
    dependents = (Watch(each, to=its_controller(TENANTS)) for each in (NAMESPACES, QUOTAS, BINDINGS))
    return ControllerSpec(
        name="tenant-controller",
        queues=(Queue(watches=(Watch(TENANTS, to=itself), *dependents)),),
        build=lambda context: Tenants(context, known),
        permissions=PERMISSIONS,
        definitions=(DefinitionFile(TENANTS, Path(__file__).with_name("tenant-crd.yml")),),
    )


if __name__ == "__main__":
    sys.exit(main([tenant_spec()], name="tenant-operator"))
