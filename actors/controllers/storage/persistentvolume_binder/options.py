"""Flags of the persistent volume binder."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class PersistentVolumeBinderOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "PersistentVolumeBinderController"

    sync_period: float = flag(
        15.0,
        "Interval at which volumes and claims are synced again.",
        name="pvclaimbinder-sync-period",
        kind=DURATION,
        config="PVClaimBinderSyncPeriod",
    )
    enable_dynamic_provisioning: bool = flag(
        True, "Provision volumes for claims dynamically.", config="VolumeConfiguration.EnableDynamicProvisioning"
    )
    enable_hostpath_provisioner: bool = flag(
        False,
        "Provision HostPath volumes when no cloud provider is set, for tests.",
        config="VolumeConfiguration.EnableHostPathProvisioning",
    )
    flex_volume_plugin_dir: str = flag(
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "Directory of third-party volume plugins.",
        config="VolumeConfiguration.FlexVolumePluginDir",
    )
    recycler_pod_template_nfs: str = flag(
        "",
        "Path to the pod template of NFS recyclers.",
        name="pv-recycler-pod-template-filepath-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS",
    )
    recycler_minimum_timeout_nfs: int = flag(
        300,
        "Minimum timeout in seconds of an NFS recycler pod.",
        name="pv-recycler-minimum-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutNFS",
    )
    recycler_increment_timeout_nfs: int = flag(
        30,
        "Seconds to add to the minimum timeout of an NFS recycler pod for each Gi.",
        name="pv-recycler-increment-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutNFS",
    )
    recycler_pod_template_hostpath: str = flag(
        "",
        "Path to the pod template of HostPath recyclers, for tests.",
        name="pv-recycler-pod-template-filepath-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath",
    )
    recycler_minimum_timeout_hostpath: int = flag(
        60,
        "Minimum timeout in seconds of a HostPath recycler pod, for tests.",
        name="pv-recycler-minimum-timeout-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutHostPath",
    )
    recycler_increment_timeout_hostpath: int = flag(
        30,
        "Seconds to add to the minimum timeout of a HostPath recycler pod for each Gi, for tests.",
        name="pv-recycler-timeout-increment-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutHostPath",
    )
