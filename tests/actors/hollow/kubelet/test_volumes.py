"""Decisions about the volumes of pods, in hollow kubelets."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow.behaviour import CsiDriver, csi_drivers, has_csi_driver
from kcm.actors.hollow.kubelet.volumes import (
    PodVolume,
    claim_error,
    csi_node,
    has_begun,
    mounted_names,
    node_ids,
    unprocessed_message,
    volume_error,
)
from kcm.protocols.csi import CsiSource, attachment_name, finalizer_of, is_single_node
from kcm.protocols.objects import Object

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
PROTECTED = {**DELETED, "finalizers": ["kubernetes.io/pvc-protection"]}


def claim(*, phase: str = "Bound", volume: str = "v", **meta: Any) -> Object:
    spec = {"volumeName": volume} if volume else {}
    return {"metadata": {"name": "data", "uid": "uid", **meta}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'),
        (claim(**DELETED), "PVC is being deleted"),
        (claim(**PROTECTED), ""),
        (claim(phase="Pending", volume=""), "PVC is not bound"),
        (claim(phase="Lost"), "PVC is not bound"),
        (claim(volume=""), "PVC has empty pvc.Spec.VolumeName"),
        (claim(), ""),
    ],
)
def test_claim_is_used_once_it_is_bound(given: Object | None, error: str) -> None:
    assert claim_error(given, "data") == error


@pytest.mark.parametrize(
    ("volume", "error"),
    [
        (None, 'failed to fetch PV v from API server: persistentvolumes "v" not found'),
        (
            {"spec": {}},
            "found PV object v but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
        ),
        (
            {"spec": {"claimRef": {"uid": "another"}}},
            "found PV object v but its pv.Spec.ClaimRef.UID another does not point to claim.UID uid",
        ),
        ({"spec": {"claimRef": {"uid": "uid"}}}, ""),
    ],
)
def test_volume_is_used_if_it_is_bound_to_the_claim(volume: Object | None, error: str) -> None:
    assert volume_error(volume, "v", claim()) == error


def test_message_names_volumes_that_are_not_mounted() -> None:
    volumes = [PodVolume("b", error="error processing PVC default/b: PVC is not bound"), PodVolume("a")]
    assert unprocessed_message(volumes, unattached={"a"}) == (
        "Unable to attach or mount volumes: unmounted volumes=[a b], unattached volumes=[a], "
        "failed to process volumes=[b]: error processing PVC default/b: PVC is not bound"
    )


def test_only_volumes_that_containers_use_are_mounted() -> None:
    spec = {
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "a"}]}],
        "containers": [{"name": "c", "volumeDevices": [{"name": "b"}]}, {"name": "d"}],
        "volumes": [{"name": "a"}, {"name": "b"}, {"name": "unused"}],
    }
    assert mounted_names({"spec": spec}) == {"a", "b"}


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({}, False),
        ({"containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}, False),
        ({"containerStatuses": [{"name": "c", "containerID": "hollow://1"}]}, True),
        ({"initContainerStatuses": [{"name": "i", "containerID": "hollow://1"}]}, True),
    ],
)
def test_pod_has_begun_once_a_container_has_started(status: Object, begun: bool) -> None:
    assert has_begun({"status": status}) is begun


def node(**annotations: str) -> Object:
    labels = {"topology.kubernetes.io/zone": "zone-a"}
    return {"metadata": {"name": "n", "uid": "u", "labels": labels, "annotations": annotations}}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, [("hollow.kcm.dev", None)]),
        ({"hollow.kcm.dev/attach-limit": "25"}, [("hollow.kcm.dev", 25)]),
        ({"hollow.kcm.dev/attach-limit": "-1"}, [("hollow.kcm.dev", None)]),
        ({"hollow.kcm.dev/csi-drivers": "b.io, a.io=7,"}, [("hollow.kcm.dev", None), ("b.io", None), ("a.io", 7)]),
        ({"hollow.kcm.dev/csi-drivers": "No_Name, a.io=x, a.io=2"}, [("hollow.kcm.dev", None), ("a.io", None)]),
    ],
)
def test_annotations_of_a_node_determine_its_drivers(annotations: dict[str, str], expected: list[Any]) -> None:
    found = csi_drivers(node(**annotations))
    assert [tuple(driver) for driver in found] == expected
    assert all(has_csi_driver(node(**annotations), name) for name, _ in expected)
    assert not has_csi_driver(node(**annotations), "c.io")


def test_csi_node_names_the_drivers_of_its_node() -> None:
    drivers = [CsiDriver("hollow.kcm.dev", 2), CsiDriver("a.io")]
    made = csi_node(node(), drivers)
    assert made["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]
    keys = ["topology.kubernetes.io/zone"]
    assert made["spec"]["drivers"] == [
        {"name": "hollow.kcm.dev", "nodeID": "n", "topologyKeys": keys, "allocatable": {"count": 2}},
        {"name": "a.io", "nodeID": "n", "topologyKeys": keys},
    ]
    assert node_ids(node(), drivers) == '{"a.io":"n","hollow.kcm.dev":"n"}'


def test_names_of_volumes_attachments_and_finalizers_are_those_of_upstream() -> None:
    source = CsiSource("d.io", "handle")
    assert source.unique_name == "kubernetes.io/csi/d.io^handle"
    assert attachment_name(source, "n") == "csi-944c96c9260e0c68443902be193c8dc740c5ba29973515900ebf065cef749aee"
    assert finalizer_of("hollow.kcm.dev") == "external-attacher/hollow-kcm-dev"
    assert finalizer_of("a.io.") == "external-attacher/a-io-X"


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteOnce", "ReadOnlyMany"], False),
        (["ReadWriteMany"], False),
        ([], False),
    ],
)
def test_volume_for_one_node_has_no_other_access_modes(modes: list[str], expected: bool) -> None:
    assert is_single_node({"spec": {"accessModes": modes}}) is expected
