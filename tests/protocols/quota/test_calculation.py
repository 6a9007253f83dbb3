"""Usage of a namespace by the limits of a quota; arithmetic of amounts.

Source of the cases: kubernetes staging/src/k8s.io/apiserver/pkg/quota/v1/resources_test.go,
pkg/quota/v1/evaluator/core/pods_test.go, TestPodEvaluatorUsageStats (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kcm.protocols.objects import Object
from kcm.protocols.quota.amounts import add, equal, exceeding, growth, highest, in_words, masked, read_amounts, written
from kcm.protocols.quota.calculation import NotCountedError, Usage, calculate_usage
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.quota.pods import Pods
from kcm.protocols.quota.services import Services

PODS = Pods(lambda: 0.0)


def pod(name: str, *, class_: str = "", cpu: str = "1", phase: str = "Running") -> Object:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}} if cpu else {}
    spec = {"priorityClassName": class_, "containers": [{"name": "c", "resources": resources}]}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


def calculated(
    names: Sequence[str], objects: Mapping[str, list[Object]], *, scopes: Sequence[str] = (), priority: str = ""
) -> Usage:
    spec: Object = {"scopes": list(scopes)}
    if priority:
        term = {"scopeName": "PriorityClass", "operator": "In", "values": [priority]}
        spec["scopeSelector"] = {"matchExpressions": [term]}

    def listed(evaluator: Evaluator) -> list[Object]:
        if evaluator.resource not in objects:
            raise NotCountedError(f"{evaluator.resource} not yet synced")
        return objects[evaluator.resource]

    evaluators = [PODS, Services(), Evaluator("secrets")]
    return calculate_usage({"spec": spec}, names, evaluators, listed)


HIGH = [pod("p1", class_="high"), pod("p2", class_="high", phase="Succeeded"), pod("p3", class_="low")]
OF_ONE = {"pods": "1", "count/pods": "2", "cpu": "1", "requests.cpu": "1", "limits.cpu": "1"}


@pytest.mark.parametrize(
    ("pods", "scopes", "priority", "used"),
    [
        ([], (), "", dict.fromkeys(OF_ONE, "0")),
        ([pod("p1"), pod("p2")], (), "", dict.fromkeys(OF_ONE, "2")),
        ([pod("p1"), pod("p2", phase="Succeeded")], (), "", OF_ONE),
        (HIGH, (), "high", OF_ONE),
        (HIGH, ("PriorityClass",), "high", OF_ONE),
        (
            [*HIGH, pod("p4", class_="high", cpu="", phase="Failed")],
            ("PriorityClass", "BestEffort"),
            "high",
            {**dict.fromkeys(OF_ONE, "0"), "count/pods": "1"},
        ),
    ],
)
def test_usage_of_objects_in_scope_is_summed(
    pods: list[Object], scopes: Sequence[str], priority: str, used: Object
) -> None:
    assert written(calculated([*OF_ONE, "unknown"], {"pods": pods}, scopes=scopes, priority=priority).used) == used


def test_unlisted_and_unreadable_resources_are_excluded_from_usage() -> None:
    names = ["pods", "services", "secrets"]
    found = calculated(names, {"pods": [pod("p1")], "secrets": []})
    assert written(found.used) == {"pods": "1", "secrets": "0"}
    assert [str(error) for error in found.errors] == ["services not yet synced"]
    broken = calculated(names, {"pods": [pod("p1", cpu="x"), pod("p2")], "services": [], "secrets": [{}]})
    assert written(broken.used) == {"services": "0", "secrets": "1"}
    assert "pods ns/p1 cannot be counted" in str(broken.errors[0])


def test_sum_has_the_format_of_the_nonzero_amount() -> None:
    first, other = read_amounts({"a": "0", "b": "1Gi", "c": "100m"}), read_amounts({"a": "1Gi", "b": "1G", "d": "2"})
    assert written(add(first, other)) == {"a": "1Gi", "b": "2073741824", "c": "100m", "d": "2"}


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ({"cpu": "1"}, {"cpu": "3"}, {"cpu": "2"}),
        ({"cpu": "3"}, {"cpu": "1"}, {"cpu": "0"}),
        ({"cpu": "3"}, {}, {"cpu": "0"}),
        ({}, {"cpu": "3"}, {"cpu": "3"}),
    ],
)
def test_only_growth_is_charged(before: Object, after: Object, more: Object) -> None:
    assert written(growth(read_amounts(before), read_amounts(after))) == more


def test_amounts_are_compared_by_value() -> None:
    amounts = read_amounts({"cpu": "1", "memory": "1Gi"})
    assert equal(amounts, read_amounts({"memory": "1024Mi", "cpu": "1000m"}))
    assert not equal(amounts, masked(amounts, ["cpu"]))
    assert exceeding(amounts, read_amounts({"cpu": "999m", "memory": "2Gi", "pods": "0"})) == ["cpu"]
    assert in_words(amounts) == "cpu=1,memory=1Gi"
    assert written(highest(amounts, read_amounts({"cpu": "2", "pods": "1"}))) == {
        "cpu": "2",
        "memory": "1Gi",
        "pods": "1",
    }
