"""Workloads and PodGroups of Jobs, behind the gate WorkloadWithJob.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_scheduling_manager_test.go. The names are those that
kube-controller-manager 1.36 has given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.workloads.job.fields import job_spec
from kcm.actors.controllers.workloads.job.gang import is_candidate, is_new, pod_group_name, workload_name
from kcm.actors.controllers.workloads.job.spec import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, name_of, uid_of
from kcm.protocols.resources import EVENTS, JOBS, POD_GROUPS, PODS, WORKLOADS
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload


def job(name: str = "train", **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    whole = {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": template, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


GROUPED = {"template": {"spec": {"schedulingGroup": {"podGroupName": "g"}}}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"parallelism": 2, "completions": 2}, True),
        ({"parallelism": 1, "completions": 1}, False),
        ({"completions": 8}, False),
        ({"completions": None, "completionMode": "NonIndexed"}, False),
        ({"completionMode": "NonIndexed"}, False),
        (GROUPED, False),
    ],
)
def test_indexed_jobs_whose_pods_all_run_at_once_are_candidates(changes: Object, expected: bool) -> None:
    selector = {"selector": {"matchLabels": {"a": "b"}}}
    assert is_candidate(job_spec(job(**changes, **selector))) is expected


@pytest.mark.parametrize(
    ("status", "has_pods", "expected"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"startTime": "2026-01-01T00:00:00Z"}, False, False),
        ({"succeeded": 1}, False, False),
        ({"failed": 1}, False, False),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, False, False),
        ({"conditions": [{"type": "Other", "status": "True"}]}, False, True),
    ],
)
def test_jobs_that_have_started_are_not_new(status: Object, has_pods: bool, expected: bool) -> None:
    assert is_new({**job(), "status": status}, has_pods=has_pods) is expected


@pytest.mark.parametrize(
    ("workload_length", "template_length", "expected"),
    [(10, 10, (10, 10)), (250, 10, (0, 10)), (10, 250, (10, 0)), (250, 250, (0, 0))],
)
def test_long_names_are_shortened(workload_length: int, template_length: int, expected: tuple[int, int]) -> None:
    """Names keep short parts whole. expected: lengths of parts that are not shortened; 0 for shortened parts."""
    name = pod_group_name("w" * workload_length, "t" * template_length)
    workload, template, hash = map(len, name.split("-"))
    most = 253 - hash - 2
    assert len(name) == (253 if 0 in expected else 20 + hash + 2)
    assert [workload, template] == [
        expected[0] or (most - expected[1] if expected[1] else most - most // 2),
        expected[1] or (most - expected[0] if expected[0] else most // 2),
    ]
    long = workload_name({"metadata": {"name": "j" * 253, "uid": "u"}})
    assert len(long) == 253


class Gang:
    """A cluster that serves Workloads and PodGroups, and a Job controller."""

    def __init__(
        self, make_cluster: Callable[..., SimulatedCluster], *, gate: bool = True, served: bool = True
    ) -> None:
        self.cluster = make_cluster()
        if served:
            self.cluster.serve(workload.RESOURCE, pod_group.RESOURCE)
            self.cluster.restart_server()
        self.cluster.hollow_nodes(nodes=2, zones=1)
        self.options = read_options(
            [f"--feature-gates=GenericWorkload={str(gate).lower()},WorkloadWithJob={str(gate).lower()}"],
            controllers=[SPEC],
        )

    def start(self) -> None:
        self.cluster.manager(controllers=[SPEC], options=self.options)
        self.cluster.run_for(2.0)

    def make(self, name: str = "train", **spec: Any) -> Object:
        made = self.cluster.create(JOBS, job(name, **spec))
        self.cluster.run_for(5.0)
        return made

    def groups(self) -> Sequence[Object | None]:
        """The schedulingGroup of each pod."""
        return [pod["spec"].get("schedulingGroup") for pod in self.cluster.list(PODS)]

    def events(self) -> list[str]:
        return [each["message"] for each in self.cluster.list(EVENTS) if each["reason"] == "WorkloadCreated"]


def test_job_gets_a_workload_and_a_pod_group_that_its_pods_name(make_cluster: Callable[..., SimulatedCluster]) -> None:
    gang = Gang(make_cluster)
    gang.start()
    made = gang.make()
    (workload,), (group,) = gang.cluster.list(WORKLOADS), gang.cluster.list(POD_GROUPS)
    policy = {"gang": {"minCount": 3}}
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        # The server encodes the constraints of a template also if it has none.
        "podGroupTemplates": [{"name": "train-pgt-0", "schedulingPolicy": policy, "schedulingConstraints": None}],
    }
    reference = {"workloadName": name_of(workload), "podGroupTemplateName": "train-pgt-0"}
    assert group["spec"] == {
        "podGroupTemplateRef": {"workload": reference},
        "schedulingPolicy": policy,
        "disruptionMode": "Pod",  # a default of the server
    }
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": uid_of(made),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert workload["metadata"]["ownerReferences"] == [owner]
    assert group["metadata"]["ownerReferences"] == [
        owner,
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "Workload",
            "name": name_of(workload),
            "uid": uid_of(workload),
        },
    ]
    assert gang.groups() == [{"podGroupName": name_of(group)}] * 3
    assert gang.events() == [f"Created Workload {name_of(workload)} for Job train"]


@pytest.mark.parametrize("spec", [{"completionMode": "NonIndexed"}, {"completions": 6}, {"parallelism": 1}])
def test_other_jobs_get_none(make_cluster: Callable[..., SimulatedCluster], spec: Object) -> None:
    gang = Gang(make_cluster)
    gang.start()
    gang.make(**spec)
    assert (gang.cluster.list(WORKLOADS), gang.cluster.list(POD_GROUPS)) == ([], [])
    assert set(map(bool, gang.groups())) == {False}


def test_without_the_gate_kinds_that_are_not_served_are_not_needed(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    gang = Gang(make_cluster, gate=False, served=False)
    gang.start()
    gang.make()
    assert gang.groups() == [None] * 3


def test_job_that_started_before_the_gate_was_on_keeps_its_pods(make_cluster: Callable[..., SimulatedCluster]) -> None:
    gang = Gang(make_cluster)
    made = gang.cluster.create(JOBS, job())
    status = {"startTime": made["metadata"]["creationTimestamp"]}
    gang.cluster.merge(JOBS, "default/train", {"status": status}, subresource="status")
    gang.start()
    gang.cluster.run_for(5.0)
    assert gang.cluster.list(WORKLOADS) == []
    assert gang.groups() == [None] * 3


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("templates", [1, 2])
def test_existing_workload_is_used_if_the_job_controls_it(
    make_cluster: Callable[..., SimulatedCluster], owned: bool, templates: int
) -> None:
    gang = Gang(make_cluster)
    made = gang.cluster.create(JOBS, job())
    meta: Object = {"name": "mine", "namespace": "default"}
    if owned:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid_of(made), "controller": True}
        meta["ownerReferences"] = [owner]
    policy = {"gang": {"minCount": 2}}
    spec = {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        "podGroupTemplates": [{"name": f"t{number}", "schedulingPolicy": policy} for number in range(templates)],
    }
    gang.cluster.create(WORKLOADS, {"metadata": meta, "spec": spec})
    gang.start()
    gang.cluster.run_for(5.0)
    assert [name_of(each) for each in gang.cluster.list(WORKLOADS)] == ["mine"]
    assert len(gang.cluster.list(POD_GROUPS)) == (owned and templates == 1)
    assert len(gang.groups()) == 3
    assert all(gang.groups()) == (owned and templates == 1)


def test_job_whose_template_name_is_refused_creates_no_pods(make_cluster: Callable[..., SimulatedCluster]) -> None:
    gang = Gang(make_cluster)
    gang.start()
    gang.make("a" * 60)  # the name of its template would be longer than 63 characters, as upstream
    assert (gang.cluster.list(WORKLOADS), gang.groups()) == ([], [])


def test_pod_group_of_a_missing_template_is_refused(make_cluster: Callable[..., SimulatedCluster]) -> None:
    gang = Gang(make_cluster)
    gang.start()
    gang.make()
    (made,) = gang.cluster.list(WORKLOADS)
    for name, template, text in (
        ("missing", "t", 'Workload "missing" not found'),
        (name_of(made), "t", f'PodGroupTemplate "t" not found in Workload "{name_of(made)}"'),
    ):
        reference = {"workload": {"workloadName": name, "podGroupTemplateName": template}}
        spec = {"podGroupTemplateRef": reference, "schedulingPolicy": {"basic": {}}}
        with pytest.raises(Exception, match=re.escape(f"PodGroup rejected: {text}")):
            gang.cluster.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})
