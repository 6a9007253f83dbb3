"""Status, validation and table cells of Nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.kinds.printers import cells


def test_node_is_created_with_its_status_and_updates_keep_it(api):
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
    created = api.create("nodes", node).obj
    assert created["status"]["capacity"] == created["status"]["allocatable"] == {"cpu": "4"}
    updated = api.patch("nodes", "n", {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "8"}}}).obj
    assert updated["status"]["capacity"] == {"cpu": "4"}
    assert api.list("nodes", fieldSelector="spec.unschedulable=true").names == ["n"]


def test_pod_cidr_of_a_node_is_immutable(api):
    api.create("nodes", {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
    unchanged = api.patch("nodes", "n", {"spec": {"podCIDRs": ["10.0.1.0/24"]}})
    assert unchanged.obj["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    refused = api.patch("nodes", "n", {"spec": {"podCIDR": "10.0.1.0/24"}})
    detail = 'Forbidden: node updates may not change podCIDR except from "" to valid'
    assert refused.causes == {"spec.podCIDRs": detail}


@pytest.mark.parametrize("text", ["x", "10.0.0.0", "10.0.0.0/33", "/24"])
def test_invalid_pod_cidr_is_rejected(api, text):
    refused = api.create("nodes", {"metadata": {"name": "n"}, "spec": {"podCIDR": text}})
    detail = f'Invalid value: "{text}": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
    assert (refused.status, refused.causes) == (422, {"spec.podCIDRs[0]": detail})


def test_the_taints_of_a_node_are_unique_by_key_and_effect(api):
    taint = {"key": "a", "effect": "NoExecute"}
    refused = api.create("nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint, taint]}})
    assert "taints must be unique by key and effect pair" in refused.causes["metadata.taints[1]"]


@pytest.mark.parametrize(
    "spec, status, expected",
    [
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, "Ready"),
        ({}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}, "NotReady"),
        ({"unschedulable": True}, {"conditions": [{"type": "Ready", "status": "True"}]}, "Ready,SchedulingDisabled"),
        ({}, {}, "Unknown"),
    ],
)
def test_row_of_a_node_shows_whether_it_is_schedulable(
    spec: dict[str, Any], status: dict[str, Any], expected: str
) -> None:
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "node-role.kubernetes.io/": ""}
    assert cells("v1", "Node", spec=spec, status=status, metadata={"labels": labels})[1:4] == [
        expected,
        "edge,worker",
        "60m",
    ]
