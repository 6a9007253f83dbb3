"""Pod CIDRs of a node."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.shared.cluster_ranges import pod_cidrs
from kcm.protocols.objects import Object


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({}, []),
        ({"spec": {}}, []),
        ({"spec": {"podCIDR": "10.0.0.0/24"}}, ["10.0.0.0/24"]),
        ({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}, ["10.0.0.0/24", "fd00::/64"]),
        ({"spec": {"podCIDR": "", "podCIDRs": []}}, []),
    ],
)
def test_pod_cidrs_count_before_pod_cidr(node: Object, expected: list[str]) -> None:
    assert pod_cidrs(node) == expected
