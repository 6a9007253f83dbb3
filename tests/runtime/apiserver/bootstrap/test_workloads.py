"""Permissions for Workloads and PodGroups, if these are served."""

from __future__ import annotations

from kcm.protocols.objects import name_of
from kcm.runtime.apiserver.bootstrap.policy import bootstrap_policy
from kcm.runtime.apiserver.bootstrap.workloads import with_group_claims, with_workloads
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from tests.runtime.apiserver.conftest import Api

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
JOBS = "system:controller:job-controller"


def test_job_controller_may_create_workloads_only_where_they_are_served() -> None:
    rights = {}
    for served in (False, True):
        kinds = (*BUILT_IN, workload.RESOURCE, pod_group.RESOURCE) if served else BUILT_IN
        api = Api(role_based=True, resources=kinds)
        api.server.ensure_roles()
        rules = api.send("GET", f"{ROLES}/{JOBS}").obj["rules"]
        rights[served] = any("workloads" in rule["resources"] and "create" in rule["verbs"] for rule in rules)
    assert rights == {False: False, True: True}


def test_other_roles_do_not_change() -> None:
    before = {(role["kind"], name_of(role)) for role in bootstrap_policy()}
    after = {(role["kind"], name_of(role)) for role in with_workloads(bootstrap_policy())}
    protection = "system:controller:podgroup-protection-controller"
    assert after - before == {("ClusterRole", protection), ("ClusterRoleBinding", protection)}
    assert len(with_workloads(bootstrap_policy())) == len(bootstrap_policy()) + 2


def test_resource_claim_controller_may_generate_claims_of_groups() -> None:
    before = {name_of(role): role for role in bootstrap_policy() if role["kind"] == "ClusterRole"}
    after = {name_of(role): role for role in with_group_claims(bootstrap_policy()) if role["kind"] == "ClusterRole"}
    (changed,) = [name for name, role in after.items() if role != before[name]]
    assert changed == "system:controller:resource-claim-controller"
    assert after[changed]["rules"][len(before[changed]["rules"]) :] == [
        {"verbs": ["get", "list", "watch"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"]},
        {"verbs": ["patch", "update"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"]},
    ]
