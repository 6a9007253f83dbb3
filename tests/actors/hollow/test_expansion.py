"""Expansion of hollow volumes in a simulated cluster: the resizer, and the kubelets that resize file systems."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.storage import persistentvolume_binder, persistentvolume_expander
from kcm.actors.hollow.behaviour import SILENT
from kcm.actors.hollow.provisioner import CLASS
from kcm.actors.hollow.resizer import LARGEST, too_large
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import PRE_RESIZE_CAPACITY, capacity_of_claim, capacity_of_volume, resize_status_of

KEY = "default/data"


class Site:
    """Cluster with one claim of 1Gi, which is bound."""

    def __init__(self, cluster: SimulatedCluster, *, largest: str = "", **spec: Any) -> None:
        self.cluster = cluster
        cluster.manager(controllers=[persistentvolume_binder.SPEC, persistentvolume_expander.SPEC])
        cluster.hollow_nodes(nodes=1, zones=1, volumes=True)
        meta: Object = {"name": "data"}
        if largest:
            meta["annotations"] = {LARGEST: largest}
        request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": meta, "spec": {**request, "storageClassName": CLASS, **spec}}
        cluster.create(PERSISTENT_VOLUME_CLAIMS, claim)
        assert cluster.run_until(lambda: capacity_of_claim(self.claim()) == "1Gi", within=30)

    def claim(self) -> Object:
        found = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, KEY)
        assert found is not None
        return found

    def volume(self) -> Object:
        (found,) = self.cluster.list(PERSISTENT_VOLUMES)
        return found

    def use(self) -> None:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        self.cluster.create(PODS, {"metadata": {"name": "user"}, "spec": spec})
        assert self.cluster.run_until(lambda: self.phase() == "Running", within=30)

    def phase(self) -> str | None:
        phase: str | None = (self.cluster.get(PODS, "default/user") or {}).get("status", {}).get("phase")
        return phase

    def request(self, size: str) -> None:
        body = {"spec": {"resources": {"requests": {"storage": size}}}}
        self.cluster.merge(PERSISTENT_VOLUME_CLAIMS, KEY, body)

    def silence(self, value: str | None) -> None:
        self.cluster.merge(NODES, "hollow-node-0", {"metadata": {"annotations": {SILENT: value}}})

    def becomes(self, size: str) -> bool:
        return self.cluster.run_until(lambda: capacity_of_claim(self.claim()) == size, within=30)


def test_claim_of_a_running_pod_is_expanded(cluster: SimulatedCluster) -> None:
    site = Site(cluster)
    site.use()
    for size in ("2Gi", "5Gi"):
        site.request(size)
        assert site.becomes(size)
        assert capacity_of_volume(site.volume()) == size
        assert "conditions" not in site.claim()["status"]
        cluster.run_for(1.0)
        assert PRE_RESIZE_CAPACITY not in annotations_of(site.volume())


def test_file_system_waits_for_a_pod_on_an_active_node(cluster: SimulatedCluster) -> None:
    site = Site(cluster)
    site.request("2Gi")
    cluster.run_for(10.0)
    assert (capacity_of_claim(site.claim()), capacity_of_volume(site.volume())) == ("1Gi", "2Gi")
    assert resize_status_of(site.claim()) == "NodeResizePending"
    assert annotations_of(site.volume())[PRE_RESIZE_CAPACITY] == "1Gi"
    assert [each["type"] for each in site.claim()["status"]["conditions"]] == ["Resizing", "FileSystemResizePending"]
    site.use()
    assert site.becomes("2Gi")
    site.silence("true")
    cluster.run_for(2.0)
    site.request("3Gi")
    cluster.run_for(10.0)
    assert resize_status_of(site.claim()) == "NodeResizePending"
    site.silence(None)
    assert site.becomes("3Gi")


def test_block_volume_is_expanded_without_a_pod(cluster: SimulatedCluster) -> None:
    site = Site(cluster, volumeMode="Block")
    site.request("2Gi")
    assert site.becomes("2Gi")
    assert "conditions" not in site.claim()["status"]


def test_expansion_beyond_the_limit_is_infeasible_until_less_is_requested(cluster: SimulatedCluster) -> None:
    site = Site(cluster, largest="3Gi", volumeMode="Block")
    site.request("5Gi")
    cluster.run_for(10.0)
    assert resize_status_of(site.claim()) == "ControllerResizeInfeasible"
    assert capacity_of_volume(site.volume()) == "1Gi"
    site.request("2Gi")
    assert site.becomes("2Gi")
    assert resize_status_of(site.claim()) == ""


@pytest.mark.parametrize(
    ("largest", "size", "refused"),
    [(None, "1Ti", False), ("5Gi", "5Gi", False), ("5Gi", "5121Mi", True), ("not a size", "1Ti", False)],
)
def test_annotation_of_a_claim_limits_its_size(largest: str | None, size: str, refused: bool) -> None:
    annotations = {} if largest is None else {LARGEST: largest}
    assert bool(too_large({"metadata": {"annotations": annotations}}, size)) is refused
