"""The tables, by name."""

from __future__ import annotations

from tests.runtime.apiserver.contracts.kinds.play import Table
from tests.runtime.apiserver.contracts.kinds.tables import (
    admission,
    autoscaling,
    batch,
    changes,
    control_plane,
    core,
    device_details,
    devices,
    networking,
    pod_demands,
    pod_groups,
    pods,
    rbac,
    resource,
    storage,
    versions,
    volume_details,
    workloads,
)

TABLES: dict[str, Table] = {
    "admission": admission.TABLE,
    "autoscaling": autoscaling.TABLE,
    "batch": batch.TABLE,
    "changes": changes.TABLE,
    "control_plane": control_plane.TABLE,
    "core": core.TABLE,
    "device_details": device_details.TABLE,
    "devices": devices.TABLE,
    "networking": networking.TABLE,
    "pod_demands": pod_demands.TABLE,
    "pod_groups": pod_groups.TABLE,
    "pods": pods.TABLE,
    "rbac": rbac.TABLE,
    "resource": resource.TABLE,
    "storage": storage.TABLE,
    "versions": versions.TABLE,
    "volume_details": volume_details.TABLE,
    "workloads": workloads.TABLE,
}
