"""Jobs with the gate WorkloadWithJob: the same Workloads, PodGroups and pods with the real kube-controller-manager and
with ours, on one kube-apiserver; and the same answers of that server and the embedded one to such objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from kcm.actors.controllers.workloads.job.gang import pod_group_name, workload_name
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import decode_object, encode_object
from kcm.runtime.apiserver.bootstrap.policy import bootstrap_policy
from kcm.runtime.apiserver.bootstrap.workloads import with_workloads
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from kcm.runtime.client.api import Request
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Object
from tests.e2e.manifests import job
from tests.e2e.programs import ending, run_kcm, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

GATES = "--feature-gates=GenericWorkload=true,WorkloadWithJob=true"
SERVED = "/apis/scheduling.k8s.io/v1alpha2/namespaces"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    directory = tmp_path_factory.mktemp("gated")
    flags = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    with real_server(directory, assets_or_skip(), *flags) as server:
        yield server


def indexed_job(name: str, **spec: Any) -> Object:
    return job(name, **{"completionMode": "Indexed", "parallelism": 2, "completions": 2, **spec})


JOBS = (
    indexed_job("gang"),
    indexed_job("lonely", parallelism=1, completions=1),
    indexed_job("some", completions=4),
    indexed_job("plain", completionMode="NonIndexed"),
    indexed_job("suspended", suspend=True),
    indexed_job("a" * 60),  # the name of its template is refused
)


def outcome(server: RealServer, namespace: str) -> Object:
    """Return the results of the Jobs. Names with hashes are checked and then omitted."""
    in_namespace(server.kubeconfig, namespace)
    api = Api(server.kubeconfig)
    for each in JOBS:
        api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", each)

    def items(path: str) -> list[Object]:
        found: list[Object] = api.request("GET", path)["items"]
        return found

    # gang and plain 2, lonely 1, some 2; suspended and the last one none.
    until(lambda: len(items(f"/api/v1/namespaces/{namespace}/pods")) == 7, "all pods are there", within=120.0)
    until(lambda: len(items(f"{SERVED}/{namespace}/podgroups")) == 2, "all groups are there", within=120.0)
    by_name = {each["metadata"]["name"]: each for each in items(f"/apis/batch/v1/namespaces/{namespace}/jobs")}
    names: dict[str, str] = {each["metadata"]["uid"]: name for name, each in by_name.items()}
    workloads = items(f"{SERVED}/{namespace}/workloads")
    for each in workloads:
        owner = by_name[each["spec"]["controllerRef"]["name"]]
        assert each["metadata"]["name"] == workload_name(owner)
        names[each["metadata"]["uid"]] = f"workload of {owner['metadata']['name']}"
    groups = items(f"{SERVED}/{namespace}/podgroups")
    for each in groups:
        reference = each["spec"]["podGroupTemplateRef"]["workload"]
        group = pod_group_name(reference["workloadName"], reference["podGroupTemplateName"])
        assert each["metadata"]["name"] == group
        reference["workloadName"] = "hashed"
    pods = items(f"/api/v1/namespaces/{namespace}/pods")
    events = [
        each["reason"] for each in items(f"/api/v1/namespaces/{namespace}/events") if "Workload" in each["reason"]
    ]
    return {
        "workloads": sorted(([_owners(each, names), each["spec"]] for each in workloads), key=repr),
        "groups": sorted(([_owners(each, names), each["spec"]] for each in groups), key=repr),
        "pods": sorted((_owners(each, names), bool(each["spec"].get("schedulingGroup"))) for each in pods),
        "events": events,
    }


def _owners(obj: Object, names: dict[str, str]) -> list[str]:
    return [
        f"{each['apiVersion']} {each['kind']} {names[each['uid']]} {each.get('controller')} "
        f"{each.get('blockOwnerDeletion')}"
        for each in obj["metadata"]["ownerReferences"]
    ]


def test_jobs_get_the_same_objects_as_with_the_real_manager(gated: RealServer, tmp_path: Path) -> None:
    with real_manager(gated, "--controllers=job-controller", GATES):
        real = outcome(gated, "gang-real")
    flags = (f"--kubeconfig={gated.kubeconfig}", "--leader-elect=false", "--controllers=job-controller", GATES)
    with ending(run_kcm(tmp_path / "kcm.log", *flags).program):
        ours = outcome(gated, "gang-ours")
    assert ours == real


def test_bootstrap_roles_have_the_same_rights(gated: RealServer) -> None:
    api = Api(gated.kubeconfig)
    for plural, kind in (("clusterroles", "ClusterRole"), ("clusterrolebindings", "ClusterRoleBinding")):
        found = {
            role["metadata"]["name"]: role for role in api.get(f"/apis/rbac.authorization.k8s.io/v1/{plural}")["items"]
        }
        wanted = [role for role in with_workloads(bootstrap_policy()) if role["kind"] == kind]
        for role in wanted:
            name = role["metadata"]["name"]
            if "aggregationRule" in role or "ClusterTrustBundle" in str(role) or name not in found:
                continue
            if "workloads" in str(role) or "podgroup" in str(role):
                assert _rights(role) == _rights(found[name]), name
        named = {role["metadata"]["name"] for role in wanted}
        assert {name for name in found if name.startswith("system:controller:podgroup")} <= named


def _rights(role: Object) -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for rule in role.get("rules") or ()
        for verb in rule["verbs"]
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        if group == "scheduling.k8s.io"
    }


POLICY = {"gang": {"minCount": 2}}
TEMPLATE = {"name": "t", "schedulingPolicy": POLICY}


def reference(workload: str, template: str) -> Object:
    return {"workload": {"workloadName": workload, "podGroupTemplateName": template}}


OBJECTS: tuple[tuple[str, Object], ...] = (
    ("workloads", {}),
    ("workloads", {"podGroupTemplates": []}),
    ("workloads", {"podGroupTemplates": [TEMPLATE]}),
    ("workloads", {"podGroupTemplates": [{"name": "", "schedulingPolicy": POLICY}]}),
    ("workloads", {"podGroupTemplates": [{"name": "a.b", "schedulingPolicy": POLICY}]}),
    ("workloads", {"podGroupTemplates": [{"name": "a" * 64, "schedulingPolicy": POLICY}]}),
    ("workloads", {"podGroupTemplates": [TEMPLATE, TEMPLATE]}),
    ("workloads", {"podGroupTemplates": [{**TEMPLATE, "name": f"t{number}"} for number in range(9)]}),
    ("workloads", {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {}}]}),
    ("workloads", {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {}}}]}),
    ("workloads", {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": -1}}}]}),
    ("workloads", {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {**POLICY, "basic": {}}}]}),
    ("workloads", {"podGroupTemplates": [TEMPLATE], "controllerRef": {}}),
    ("workloads", {"podGroupTemplates": [TEMPLATE], "controllerRef": {"kind": "a/b", "name": "..", "apiGroup": "A"}}),
    ("workloads", {"podGroupTemplates": [{**TEMPLATE, "priority": 5, "priorityClassName": "x"}]}),
    ("podgroups", {}),
    ("podgroups", {"schedulingPolicy": {"basic": {}}}),
    ("podgroups", {"schedulingPolicy": POLICY, "podGroupTemplateRef": reference("missing", "t")}),
    ("podgroups", {"schedulingPolicy": POLICY, "podGroupTemplateRef": reference("o2", "other")}),
    ("podgroups", {"schedulingPolicy": POLICY, "podGroupTemplateRef": reference("o2", "t")}),
    ("podgroups", {"schedulingPolicy": POLICY, "podGroupTemplateRef": {}}),
    ("podgroups", {"schedulingPolicy": POLICY, "podGroupTemplateRef": {"workload": {}}}),
    (
        "podgroups",
        {
            "schedulingPolicy": POLICY,
            "podGroupTemplateRef": {"workload": {"workloadName": "A", "podGroupTemplateName": "a.b"}},
        },
    ),
    ("podgroups", {"schedulingPolicy": POLICY, "disruptionMode": "Pod", "priority": 1}),
)
KINDS = {"workloads": "Workload", "podgroups": "PodGroup"}


def test_embedded_server_answers_as_the_real_one(
    gated: RealServer, make_cluster: Callable[..., SimulatedCluster]
) -> None:
    cluster = make_cluster()
    cluster.serve(workload.RESOURCE, pod_group.RESOURCE)
    cluster.restart_server()
    api = Api(gated.kubeconfig)

    def real(method: str, path: str, body: Object) -> Object:
        try:
            return api.request(method, path, body)
        except HTTPError as err:
            answer: Object = json.load(err)
            return answer

    def embedded(method: str, path: str, body: Object) -> Object:
        request = Request(method=method, path=path, body=encode_object(body))
        return decode_object(cluster.network.serve(request).body)

    found = []
    for number, (plural, spec) in enumerate(OBJECTS):
        meta = {"name": f"o{number}", "namespace": "default"}
        obj = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": KINDS[plural], "metadata": meta, "spec": spec}
        path = f"{SERVED}/default/{plural}"
        answers = [_told(each("POST", path, obj)) for each in (real, embedded)]
        if answers[0] != answers[1]:
            found.append((spec, *answers))
        if not isinstance(answers[0], str):
            changed = {**obj, "spec": {**spec, "schedulingPolicy": {"basic": {}}, "podGroupTemplates": []}}
            changed["spec"].pop("podGroupTemplates" if plural == "podgroups" else "schedulingPolicy")
            answers = [_told(each("PUT", f"{path}/o{number}", changed)) for each in (real, embedded)]
            if answers[0] != answers[1]:
                found.append((changed["spec"], *answers))
    assert not found, "\n".join("\n  ".join(map(str, each)) for each in found)


def _told(answer: Object) -> Any:
    """The error, or what is stored besides the metadata.

    Fields that upstream writes as null are left out.
    """
    if answer.get("kind") == "Status":
        return answer["message"]
    return _without_nulls({name: value for name, value in answer.items() if name != "metadata"})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
