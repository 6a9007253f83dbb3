"""Malformed volumes and claims: the error names the field, and tables contain them as unreadable."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.volumes import claim_facts, volume_facts

META = {"name": "v", "annotations": {}}


@pytest.mark.parametrize(
    ("malformed", "why"),
    [
        ({}, "spec is missing"),
        ({"spec": "x"}, "spec is a map, got 'x'"),
        ({"spec": {"claimRef": []}}, r"spec.claimRef is a map, got \[\]"),
        ({"spec": {"claimRef": {"uid": 7}}}, "spec.claimRef.uid is a string, got 7"),
        ({"spec": {"accessModes": "ReadWriteOnce"}}, "spec.accessModes is a list, got 'ReadWriteOnce'"),
        ({"spec": {"capacity": {"storage": "much"}}}, "spec.capacity.storage is a quantity, got 'much'"),
        ({"spec": {"volumeMode": ["Block"]}}, r"spec.volumeMode is a string, got \['Block'\]"),
        ({"spec": {"hostPath": {"path": 7}}}, "spec.hostPath.path is a string, got 7"),
        ({"spec": {}, "status": {"phase": True}}, "status.phase is a string, got True"),
        ({"metadata": {"annotations": ["a"]}, "spec": {}}, r"metadata.annotations is a map, got \['a'\]"),
    ],
)
def test_a_malformed_volume_is_named(malformed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        volume_facts({"metadata": META, **malformed})


@pytest.mark.parametrize(
    ("malformed", "why"),
    [
        ({}, "spec is missing"),
        ({"spec": {"volumeName": 7}}, "spec.volumeName is a string, got 7"),
        ({"spec": {"resources": {"requests": {"storage": "x"}}}}, "spec.resources.requests.storage is a quantity"),
        ({"spec": {"selector": "x"}}, "spec.selector is a map, got 'x'"),
        ({"spec": {"accessModes": [1]}}, r"spec.accessModes\[0\] is a string, got 1"),
        ({"spec": {}, "status": {"capacity": "1Gi"}}, "status.capacity is a map, got '1Gi'"),
    ],
)
def test_a_malformed_claim_is_named(malformed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        claim_facts({"metadata": META, **malformed})
