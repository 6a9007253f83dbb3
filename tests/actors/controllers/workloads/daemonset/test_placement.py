"""Placement of a DaemonSet's pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.controllers.workloads.daemonset.placement import (
    BOTH,
    NEITHER,
    STAY,
    NodeVerdict,
    daemon_tolerations,
    placement_of,
)
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.daemonset.scene import node, template

NEW, LOST = {"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}


def requiring(*expressions: Object, **fields: Any) -> Object:
    term = {"matchExpressions": list(expressions), **fields}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def named(name: str) -> Object:
    return requiring(matchFields=[{"key": "metadata.name", "operator": "In", "values": [name]}])


FAST = {"key": "disk", "operator": "In", "values": ["fast"]}
CASES = {
    "any node": ({}, node("n"), BOTH),
    "its name": ({"nodeName": "n"}, node("n"), BOTH),
    "another name": ({"nodeName": "m"}, node("n"), NEITHER),
    "a label": ({"nodeSelector": {"disk": "fast"}}, node("n", disk="fast"), BOTH),
    "another label": ({"nodeSelector": {"disk": "fast"}}, node("n", disk="slow"), NEITHER),
    "affinity": ({"affinity": requiring(FAST)}, node("n", disk="fast"), BOTH),
    "affinity to others": ({"affinity": requiring(FAST)}, node("n"), NEITHER),
    "affinity to its name": ({"affinity": named("n")}, node("n"), BOTH),
    "affinity to another name": ({"affinity": named("m")}, node("n"), NEITHER),
    "affinity that means nothing": ({"affinity": requiring({"key": "a", "operator": "Near"})}, node("n"), NEITHER),
    "NoSchedule": ({}, node("n", taints=[NEW]), STAY),
    "NoExecute": ({}, node("n", taints=[LOST]), NEITHER),
    "both taints": ({}, node("n", taints=[NEW, LOST]), NEITHER),
    "PreferNoSchedule": ({}, node("n", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}]), BOTH),
    "tolerated": ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, node("n", taints=[NEW, LOST]), BOTH),
    "a cordoned node": (
        {},
        node("n", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        BOTH,
    ),
    "an unreachable node": (
        {},
        node("n", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
        BOTH,
    ),
    "no network": (
        {},
        node("n", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
        STAY,
    ),
    "no network but the host's": (
        {"hostNetwork": True},
        node("n", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
        BOTH,
    ),
}


@pytest.mark.parametrize(("spec", "on", "verdict"), CASES.values(), ids=CASES)
def test_pod_runs_on_nodes_with_matching_name_labels_and_taints(spec: Object, on: Object, verdict: NodeVerdict) -> None:
    placement = placement_of(template(**spec), comparing=False)
    for _ in range(2):  # the second verdict is from the cache
        assert placement.verdict(node_facts(on).placement) == verdict


@pytest.mark.parametrize(("comparing", "verdict"), [(False, STAY), (True, BOTH)])
def test_tolerations_compare_numbers_with_the_feature_gate(comparing: bool, verdict: NodeVerdict) -> None:
    toleration = {"key": "gpu", "operator": "Gt", "value": "1"}
    on = node("n", taints=[{**NEW, "value": "2"}])
    placement = placement_of(template(tolerations=[toleration]), comparing=comparing)
    assert placement.verdict(node_facts(on).placement) == verdict


def test_missing_node_gets_no_pod() -> None:
    assert placement_of(template(), comparing=False).verdict(b"") == NEITHER


def test_equal_requirements_share_the_cached_verdicts() -> None:
    assert placement_of(template("v1"), comparing=False) is placement_of(template("v2"), comparing=False)


def test_error_names_the_malformed_template() -> None:
    with pytest.raises(ValueError, match=r"spec\.template\.spec has malformed scheduling constraints"):
        placement_of(template(affinity=["x"]), comparing=False)


def keys(tolerations: list[Object]) -> Mapping[str, str]:
    return {obj["key"].rpartition("/")[2]: obj["effect"] for obj in tolerations}


def test_pods_tolerate_the_taints_of_node_conditions() -> None:
    wanted = {
        "not-ready": "NoExecute",
        "unreachable": "NoExecute",
        "disk-pressure": "NoSchedule",
        "memory-pressure": "NoSchedule",
        "pid-pressure": "NoSchedule",
        "unschedulable": "NoSchedule",
    }
    assert keys(daemon_tolerations({})) == wanted
    assert keys(daemon_tolerations({"hostNetwork": True})) == {**wanted, "network-unavailable": "NoSchedule"}


def test_toleration_seconds_of_the_template_are_removed() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    other = {"key": "gpu", "operator": "Exists"}
    tolerations = daemon_tolerations({"tolerations": [{**own, "tolerationSeconds": 5}, other]})
    assert tolerations[:2] == [own, other]
    assert len(tolerations) == 7
