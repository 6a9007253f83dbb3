"""Volumes, classes and claims as manifests."""

from __future__ import annotations

from typing import Any

from tests.e2e.kubectl import Kubectl, Object

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
