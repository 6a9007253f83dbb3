"""Volumes, classes and claims as manifests, and what tests of them do with the real manager and with ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import CONTROLLERS, managing
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def volumes(kubectl: Kubectl) -> list[Object]:
    """All that there are: they are of no namespace."""
    found: list[Object] = kubectl.api.get(f"/api/v1/{VOLUMES}")["items"]
    return found


def volume(name: str, size: str = "1Gi", *, policy: str = "Retain", class_: str = "", **spec: Any) -> Object:
    source = {} if {"nfs", "hostPath"} & spec.keys() else {"csi": {"driver": "example.com", "volumeHandle": name}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class_,
            **source,
            **spec,
        },
    }


def claim(name: str, size: str = "1Gi", *, class_: str | None = None, **spec: Any) -> Object:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if class_ is not None:
        whole["storageClassName"] = class_
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole}


def storage_class(name: str, *, mode: str = "Immediate", provisioner: str = "example.com/disk") -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def attributes_class(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
        "driverName": "example.com",
        "parameters": {"iops": "100"},
    }


def pod_with(name: str, *claims: str) -> Object:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": each}} for i, each in enumerate(claims)]
    spec = {"containers": [{"name": "main", "image": "web:1"}], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def phases(kubectl: Kubectl) -> dict[str, str]:
    """Return the phases of the claims; a claim that is being deleted is Terminating."""
    return {
        claim["metadata"]["name"]: "Terminating"
        if "deletionTimestamp" in claim["metadata"]
        else claim["status"]["phase"]
        for claim in kubectl.items(CLAIMS)
    }


class VolumeScene:
    """A namespace with volumes. Volumes and classes are of no namespace: their names begin with that of the run."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl, self.run = kubectl, kubectl.namespace

    def name(self, what: str) -> str:
        return f"{self.run}-{what}"

    def volumes(self) -> list[Object]:
        return [volume for volume in volumes(self.kubectl) if volume["metadata"]["name"].startswith(self.run)]


def with_each_manager(
    real: RealServer, what: str, names: Sequence[str], play: Callable[[Kubectl], list[Snapshot]], *flags: str
) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the snapshots of a play with the real manager and with ours, each of which runs these controllers."""
    with real_manager(real, f"--controllers={','.join(names)}", *flags):
        theirs = play(in_namespace(real.kubeconfig, f"{what}-a"))
    controllers = ",".join((*CONTROLLERS, *names))
    ours = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", f"--controllers={controllers}", *flags)
    with managing(real.directory / f"{what}.log", *ours):
        return theirs, play(in_namespace(real.kubeconfig, f"{what}-b"))
