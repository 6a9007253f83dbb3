"""Volumes that are provisioned for claims on kubemark's nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow.provisioner import CLASS, NAME
from kcm.protocols.volumes import PROVISIONED_BY, PROVISIONER
from tests.conformance.provisioner import is_released, volume_of


def claim(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "annotations": {PROVISIONER: NAME}},
        "spec": {
            "storageClassName": CLASS,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def test_claim_gets_a_volume_that_kubemark_mounts() -> None:
    volume = volume_of(claim())
    assert volume is not None
    assert volume["metadata"] == {"name": "pvc-u", "annotations": {PROVISIONED_BY: NAME}}
    assert volume["spec"]["hostPath"] == {"path": "/volumes/pvc-u"}
    assert "csi" not in volume["spec"]
    assert (volume["spec"]["capacity"], volume["spec"]["claimRef"]["uid"]) == ({"storage": "1Gi"}, "u")


def test_claim_with_a_volume_or_another_provisioner_gets_none() -> None:
    assert volume_of(claim(volumeName="v")) is None
    assert volume_of(claim(storageClassName="fast")) is None
    deleted = claim()
    deleted["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
    assert volume_of(deleted) is None
    other = claim()
    other["metadata"]["annotations"][PROVISIONER] = "example.com"
    assert volume_of(other) is None


@pytest.mark.parametrize(
    ("provisioner", "phase", "released"),
    [(NAME, "Released", True), (NAME, "Bound", False), (NAME, "Pending", False), ("example.com", "Released", False)],
)
def test_only_own_released_volumes_are_deleted(provisioner: str, phase: str, released: bool) -> None:
    volume = {"metadata": {"name": "v", "annotations": {PROVISIONED_BY: provisioner}}, "status": {"phase": phase}}
    assert is_released(volume) is released
