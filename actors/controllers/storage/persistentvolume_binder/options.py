"""Flags of the binder."""

from __future__ import annotations

from actors.options import ControllerOptions
from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeBinderOptions(ControllerOptions):
    configz_block = "PersistentVolumeBinderController"

    sync_period: float = flag(
        15.0,
        "How often volumes and claims are matched.",
        name="pvclaimbinder-sync-period",
        kind=DURATION,
        config="PVClaimBinderSyncPeriod",
    )
    enable_dynamic_provisioning: bool = flag(
        True, "Make volumes for claims.", config="VolumeConfiguration.EnableDynamicProvisioning"
    )
    enable_hostpath_provisioner: bool = flag(
        False, "Make them on the host, for tests.", config="VolumeConfiguration.EnableHostPathProvisioning"
    )
    flex_volume_plugin_dir: str = flag(
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "Directory of volume plugins.",
        config="VolumeConfiguration.FlexVolumePluginDir",
    )
    recycler_pod_template_nfs: str = flag(
        "",
        "File with the pod that scrubs an NFS volume.",
        name="pv-recycler-pod-template-filepath-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS",
    )
    recycler_minimum_timeout_nfs: int = flag(
        300,
        "Seconds that it has, at least.",
        name="pv-recycler-minimum-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutNFS",
    )
    recycler_increment_timeout_nfs: int = flag(
        30,
        "Seconds more a Gi.",
        name="pv-recycler-increment-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutNFS",
    )
    recycler_pod_template_hostpath: str = flag(
        "",
        "File with the pod that scrubs a host path.",
        name="pv-recycler-pod-template-filepath-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath",
    )
    recycler_minimum_timeout_hostpath: int = flag(
        60,
        "Seconds that it has, at least.",
        name="pv-recycler-minimum-timeout-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutHostPath",
    )
    recycler_increment_timeout_hostpath: int = flag(
        30,
        "Seconds more a Gi.",
        name="pv-recycler-timeout-increment-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutHostPath",
    )
