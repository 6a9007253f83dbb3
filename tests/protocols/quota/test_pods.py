"""Usage of pods. Source of the cases: kubernetes pkg/quota/v1/evaluator/core/pods_test.go (v1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.protocols.quota.amounts import written
from kcm.protocols.quota.evaluators import CREATE, UPDATE
from kcm.protocols.quota.pods import Pods
from kcm.protocols.quota.scopes import (
    BEST_EFFORT,
    CROSS_NAMESPACE_POD_AFFINITY,
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_BEST_EFFORT,
    NOT_IN,
    NOT_TERMINATING,
    PRIORITY_CLASS,
    TERMINATING,
    ScopeRequirement,
)
from kcm.protocols.times import format_time

NOW = 1_000_000.0
PODS = Pods(lambda: NOW)
DONGLE = "example.com/dongle"
IMPLICIT = "deviceclass.resource.kubernetes.io/dongle"


def resources(requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    parts = {"requests": requests, "limits": limits}
    return {"resources": {name: part for name, part in parts.items() if part is not None}, **more}


def pod(*containers: Object, init: tuple[Object, ...] = (), status: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
        "status": status or {},
    }


def usage(of: Object) -> Object:
    used = written(PODS.usage(of))
    assert written(PODS.usage(PODS.essence(of))) == used
    return used


def meets(of: Object, scope: ScopeRequirement) -> bool:
    met = PODS.meets(of, scope)
    assert PODS.meets(PODS.essence(of), scope) is met
    return met


CPU = resources({"cpu": "1m"}, {"cpu": "2m"})
CPU_USED = {"cpu": "1m", "requests.cpu": "1m", "limits.cpu": "2m"}
MEMORY = resources({"memory": "1m"}, {"memory": "2m"})
MEMORY_USED = {"memory": "1m", "requests.memory": "1m", "limits.memory": "2m"}
STORAGE = resources({"ephemeral-storage": "32Mi"}, {"ephemeral-storage": "64Mi"})
STORAGE_USED = {
    "ephemeral-storage": "32Mi",
    "requests.ephemeral-storage": "32Mi",
    "limits.ephemeral-storage": "64Mi",
}
HUGE = resources({"hugepages-2Mi": "100Mi"})
HUGE_USED = {"hugepages-2Mi": "100Mi", "requests.hugepages-2Mi": "100Mi"}
EXTENDED = resources({DONGLE: "3"}, {DONGLE: "3"})
EXTENDED_USED = {f"requests.{DONGLE}": "3"}
OF_CLASS = resources({IMPLICIT: "3"}, {IMPLICIT: "3"})
OF_CLASS_USED = {f"requests.{IMPLICIT}": "3"}


@pytest.mark.parametrize(
    ("container", "used"),
    [
        (CPU, CPU_USED),
        (MEMORY, MEMORY_USED),
        (STORAGE, STORAGE_USED),
        (HUGE, HUGE_USED),
        (EXTENDED, EXTENDED_USED),
        (OF_CLASS, OF_CLASS_USED),
        (resources(), {}),
        (resources({"kubernetes.io/batteries": "1", "requests.example.com/odd": "1"}), {}),
    ],
)
def test_a_container_uses_what_it_asks_for_be_it_an_init_container_or_not(container: Object, used: Object) -> None:
    expected = {"count/pods": "1", "pods": "1", **used}
    assert usage(pod(container)) == expected
    assert usage(pod(init=(container,))) == expected


def test_the_most_of_the_init_containers_counts_where_it_is_more_than_the_sum_of_containers() -> None:
    def needs(cpu: str, memory: str, dongles: str, cpu_limit: str, memory_limit: str) -> Object:
        return resources(
            {"cpu": cpu, "memory": memory, DONGLE: dongles},
            {"cpu": cpu_limit, "memory": memory_limit, DONGLE: dongles},
        )

    init = (needs("4", "100M", "4", "8", "200M"), needs("1", "50M", "2", "2", "100M"))
    assert usage(pod(needs("1", "50M", "1", "2", "100M"), needs("2", "25M", "2", "5", "50M"), init=init)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "4",
        "requests.cpu": "4",
        "limits.cpu": "8",
        "memory": "100M",
        "requests.memory": "100M",
        "limits.memory": "200M",
        f"requests.{DONGLE}": "4",
    }


def test_a_restartable_init_container_runs_beside_what_follows() -> None:
    sidecar = resources({"cpu": "1"}, {"cpu": "2"}, restartPolicy="Always")
    used = usage(pod(resources({"cpu": "1"}), init=(resources({"cpu": "3"}), sidecar, resources({"cpu": "4"}))))
    assert used["requests.cpu"] == "5"  # the last init container, beside the sidecar
    assert usage(pod(resources({"cpu": "6"}), init=(sidecar, resources({"cpu": "4"}))))["cpu"] == "7"
    assert used["limits.cpu"] == "2"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_only_an_object_in_storage(phase: str) -> None:
    assert usage(pod(EXTENDED, status={"phase": phase})) == {"count/pods": "1"}


@pytest.mark.parametrize(("deleted", "counts"), [(NOW - 60, False), (NOW - 30, True), (NOW, True)])
def test_a_pod_that_should_be_gone_is_only_an_object_in_storage(deleted: float, counts: bool) -> None:
    gone = pod(CPU, status={"reason": "NodeLost"})
    gone["metadata"] |= {"deletionTimestamp": format_time(deleted), "deletionGracePeriodSeconds": 30}
    assert ("cpu" in usage(gone)) is counts
    del gone["metadata"]["deletionGracePeriodSeconds"]
    assert "cpu" in usage(gone)


def test_the_overhead_counts_and_a_limit_grows_by_it_where_there_is_one() -> None:
    used = usage(pod(resources({"cpu": "1"}, {"cpu": "2"}), overhead={"cpu": "1", "memory": "1Mi"}))
    assert (used["requests.cpu"], used["limits.cpu"], used["memory"]) == ("2", "3", "1Mi")
    assert "limits.memory" not in used


def test_pod_level_resources_replace_those_of_containers() -> None:
    used = usage(pod(CPU, STORAGE, **resources({"memory": "1Mi", DONGLE: "9"}, {"memory": "2Mi"})))
    assert used == {
        "count/pods": "1",
        "pods": "1",
        **CPU_USED,
        **STORAGE_USED,
        "memory": "1Mi",
        "requests.memory": "1Mi",
        "limits.memory": "2Mi",
    }
    assert usage(pod(CPU, **resources({"cpu": "7m"}, {"cpu": "8m"})))["limits.cpu"] == "8m"


RESIZED = resources({"cpu": "100m", "memory": "200Mi"}, {"cpu": "200m", "memory": "400Mi"}, name="c")


@pytest.mark.parametrize(
    ("has", "allocated", "infeasible", "used"),
    [
        ({"memory": "150Mi"}, {}, False, ("100m", "200Mi", "200m")),
        ({"cpu": "150m"}, {}, False, ("150m", "200Mi", "200m")),
        ({"cpu": "150m", "memory": "250Mi"}, {}, False, ("150m", "250Mi", "200m")),
        ({"cpu": "50m", "memory": "1Mi"}, {"cpu": "300m"}, False, ("300m", "200Mi", "200m")),
        ({"cpu": "50m", "memory": "1Mi"}, {"cpu": "60m"}, True, ("60m", "1Mi", None)),
    ],
)
def test_while_a_pod_is_resized_the_most_of_what_it_has_and_what_it_wants_counts(
    has: Object, allocated: Object, infeasible: bool, used: tuple[str, str, str | None]
) -> None:
    status: Object = {
        "containerStatuses": [{"name": "c", "resources": {"requests": has}, "allocatedResources": allocated}]
    }
    if infeasible:
        status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    found = usage(pod(RESIZED, status=status))
    assert (found["cpu"], found["memory"], found.get("limits.cpu")) == used
    sidecar = usage(pod(init=({**RESIZED, "restartPolicy": "Always"},), status=status))
    assert (sidecar["cpu"], sidecar["memory"], sidecar.get("limits.cpu")) == used


def test_while_a_pod_is_resized_as_a_whole_the_most_counts() -> None:
    status = {"resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}, "allocatedResources": {"cpu": "2"}}
    used = usage(pod(CPU, status=status, **resources({"cpu": "1"}, {"cpu": "9"})))
    assert (used["requests.cpu"], used["limits.cpu"]) == ("3", "9")


CROSS = {"labelSelector": {}, "namespaces": ["ns1"]}
SELECTING = {"labelSelector": {}, "namespaceSelector": {}}
HERE = {"labelSelector": {}}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, {NOT_TERMINATING, BEST_EFFORT}),
        ({"priorityClassName": "class1"}, {NOT_TERMINATING, BEST_EFFORT, PRIORITY_CLASS}),
        ({"priorityClassName": "class2"}, {NOT_TERMINATING, BEST_EFFORT}),
        ({"activeDeadlineSeconds": 30}, {TERMINATING, BEST_EFFORT}),
        ({"activeDeadlineSeconds": 0}, {TERMINATING, BEST_EFFORT}),
        ({"containers": [resources({"cpu": "1"})]}, {NOT_TERMINATING, NOT_BEST_EFFORT}),
        *(
            (
                {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": [term]}}},
                {NOT_TERMINATING, BEST_EFFORT} | ({CROSS_NAMESPACE_POD_AFFINITY} if crosses else set()),
            )
            for kind in ("podAffinity", "podAntiAffinity")
            for of, crosses in ((CROSS, True), (SELECTING, True), (HERE, False))
            for when, term in (("required", of), ("preferred", {"weight": 1, "podAffinityTerm": of}))
        ),
    ],
)
def test_a_pod_meets_scopes(spec: Object, names: set[str]) -> None:
    scopes = [
        ScopeRequirement(TERMINATING),
        ScopeRequirement(NOT_TERMINATING),
        ScopeRequirement(BEST_EFFORT),
        ScopeRequirement(NOT_BEST_EFFORT),
        ScopeRequirement(PRIORITY_CLASS, IN, ("class1",)),
        ScopeRequirement(CROSS_NAMESPACE_POD_AFFINITY),
        ScopeRequirement("VolumeAttributesClass"),
    ]
    assert {scope.name for scope in scopes if meets({"spec": spec}, scope)} == names


@pytest.mark.parametrize(
    ("operator", "values", "of_high", "of_none"),
    [
        (EXISTS, (), True, False),
        (DOES_NOT_EXIST, (), False, True),
        (IN, ("high", "other"), True, False),
        (IN, ("other",), False, False),
        (NOT_IN, ("high",), False, True),
        (NOT_IN, ("other",), True, True),
    ],
)
def test_a_priority_class_is_selected(operator: str, values: tuple[str, ...], of_high: bool, of_none: bool) -> None:
    scope = ScopeRequirement(PRIORITY_CLASS, operator, values)
    assert meets({"spec": {"priorityClassName": "high"}}, scope) is of_high
    assert meets({"spec": {"priorityClassName": ""}}, scope) is of_none


def test_unknown_scope_operator_is_refused() -> None:
    with pytest.raises(ValueError, match='"Like" is not a valid scope selector operator'):
        meets({}, ScopeRequirement(PRIORITY_CLASS, "Like"))


FOO, BAR, DUMMY = ({"name": name, **CPU} for name in ("foo", "bar", "dummy"))


@pytest.mark.parametrize(
    ("asked", "names", "lacks"),
    [
        (pod(init=(DUMMY,)), ["memory"], "must specify memory for: dummy"),
        (pod(init=(FOO, BAR)), ["memory"], "must specify memory for: bar,foo"),
        (pod(DUMMY), ["memory"], "must specify memory for: dummy"),
        (pod(FOO, BAR), ["memory", "cpu"], "must specify memory for: bar,foo"),
        (
            pod({"name": "foo"}, {"name": "bar", "resources": {}}),
            ["memory", "cpu"],
            "must specify cpu for: bar,foo; memory for: bar,foo",
        ),
        (pod({"name": "foo"}, **resources({"cpu": "1m"})), ["memory", "cpu"], ""),
        (pod(FOO), ["cpu", "requests.cpu", "limits.cpu", "pods", "requests.ephemeral-storage", "hugepages-2Mi"], ""),
    ],
)
def test_cpu_and_memory_have_to_be_asked_for_where_a_quota_limits_them(
    asked: Object, names: list[str], lacks: str
) -> None:
    assert PODS.lacks(asked, names) == lacks


def test_names_that_pods_use() -> None:
    ours = {
        "pods",
        "count/pods",
        "cpu",
        "limits.memory",
        "requests.ephemeral-storage",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        f"requests.{DONGLE}",
        f"requests.{IMPLICIT}",
    }
    others = {
        "services",
        "count/secrets",
        "requests.storage",
        DONGLE,
        "limits.example.com/dongle",
        "requests.kubernetes.io/x",
    }
    assert PODS.matching(ours | others) == ours


@pytest.mark.parametrize(
    ("operation", "subresource", "deadlines", "handled"),
    [
        (CREATE, "", (None, None), True),
        (UPDATE, "", (None, None), False),
        (UPDATE, "", (30, None), True),
        (UPDATE, "", (30, 60), False),
        (UPDATE, "resize", (None, None), True),
        (CREATE, "resize", (None, None), False),
        (UPDATE, "status", (30, None), False),
        (CREATE, "binding", (None, None), False),
    ],
)
def test_requests_that_change_what_pods_use(
    operation: str, subresource: str, deadlines: tuple[int | None, int | None], handled: bool
) -> None:
    new, old = ({"spec": {"activeDeadlineSeconds": each}} for each in deadlines)
    assert PODS.handles(operation, subresource, new, old) is handled
