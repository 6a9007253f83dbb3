"""Recycler pods, which delete the files of a released volume. Recycling is deprecated upstream.

Source: kubernetes v1.36 pkg/volume/plugins.go (NewPersistentVolumeRecyclerPodTemplate), pkg/volume/hostpath,
pkg/volume/nfs, pkg/volume/util/util.go (CalculateTimeoutForVolume), cmd/kube-controller-manager/app/plugins.go
(AttemptToLoadRecycler).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from kcm.actors.controllers.storage.persistentvolume_binder.host_path import HOST_PATH
from kcm.actors.controllers.storage.persistentvolume_binder.options import PersistentVolumeBinderOptions
from kcm.actors.controllers.storage.persistentvolume_binder.plugins import NFS, plugin_of
from kcm.actors.options import Options
from kcm.protocols.objects import Key, Object, make_key, metadata, name_of
from kcm.protocols.quantities import whole_value

NAMESPACE, PREFIX = "default", "recycler-for-"
_GI = 2**30
_SCRUB = 'test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1'


class Recycler(Struct, frozen=True, kw_only=True):
    """Settings of the recycler pods for the volumes of one plugin."""

    template: Mapping[str, Any]  # manifest of the pod
    minimum: int  # minimum timeout in seconds
    increment: int  # seconds of timeout for each Gi


def default_template() -> Object:
    container = {
        "name": "pv-recycler",
        "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
        "command": ["/bin/sh"],
        "args": ["-c", _SCRUB],
        "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
    }
    spec = {"restartPolicy": "Never", "volumes": [{"name": "vol"}], "containers": [container]}
    return {"metadata": {"namespace": NAMESPACE}, "spec": spec}


def recyclers(options: PersistentVolumeBinderOptions) -> Mapping[str, Recycler]:
    """Return the recycler settings by plugin name. Reads the files with pod templates.

    Raises OSError or ValueError if a template file cannot be read or is invalid.
    """
    return {
        HOST_PATH: Recycler(
            template=_template(options.recycler_pod_template_hostpath),
            minimum=options.recycler_minimum_timeout_hostpath,
            increment=options.recycler_increment_timeout_hostpath,
        ),
        NFS: Recycler(
            template=_template(options.recycler_pod_template_nfs),
            minimum=options.recycler_minimum_timeout_nfs,
            increment=options.recycler_increment_timeout_nfs,
        ),
    }


def check_templates(options: Options) -> Iterable[str]:
    """Yield an error message if a file with a recycler pod template cannot be read or is invalid."""
    try:
        recyclers(options[PersistentVolumeBinderOptions])
    except (OSError, ValueError) as err:
        yield f"recycler pod template: {err}"


def _template(path: str) -> Mapping[str, Any]:
    return read_template(Path(path).read_text(encoding="utf-8"), path) if path else default_template()


def read_template(text: str, path: str) -> Mapping[str, Any]:
    """Parse the manifest of a recycler pod in YAML or JSON. Raises ValueError if it is invalid or has no volumes.

    path: path of the file, for error messages.
    """
    import yaml

    try:
        pod = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise ValueError(f"{path}: {err}") from err
    if not isinstance(pod, dict) or pod.get("kind", "Pod") != "Pod" or not isinstance(pod.get("spec"), dict):
        raise ValueError(f"{path}: not a Pod manifest")
    if not pod["spec"].get("volumes"):
        raise ValueError(f"{path}: does not contain any volume(s)")
    return pod


def recycler_key(volume: Key, recycler: Recycler) -> Key:
    return make_key(metadata(recycler.template).get("namespace") or NAMESPACE, f"{PREFIX}{volume}")


def recycler_pod(volume: Mapping[str, Any], recycler: Recycler) -> Object:
    """Return the recycler pod for a volume: the template with the volume's source as first volume, and a timeout.

    Raises ValueError if the capacity of the volume is invalid.
    """
    source = "hostPath" if plugin_of(volume) == HOST_PATH else "nfs"
    mounted = volume["spec"][source]
    if source == "hostPath":
        mounted = {"path": mounted.get("path")}
    else:
        mounted = {"server": mounted.get("server"), "path": mounted.get("path")}
    spec = recycler.template["spec"]
    first, *others = spec["volumes"]
    meta = {name: value for name, value in metadata(recycler.template).items() if name != "generateName"}
    return {
        **recycler.template,
        "metadata": {"namespace": NAMESPACE, **meta, "name": f"{PREFIX}{name_of(volume)}"},
        "spec": {
            **spec,
            "activeDeadlineSeconds": timeout_of(volume, recycler),
            "volumes": [{"name": first.get("name"), source: mounted}, *others],
        },
    }


def timeout_of(volume: Mapping[str, Any], recycler: Recycler) -> int:
    size = whole_value((volume["spec"].get("capacity") or {}).get("storage") or "0")
    return max(recycler.minimum, size // _GI * recycler.increment)


def is_recycler_of(pod: Mapping[str, Any], volume: Mapping[str, Any], recycler: Recycler) -> bool:
    """Report whether a recycler pod mounts the source of this volume.

    If not, the pod was created for an earlier volume of the same name.
    """
    wanted = recycler_pod(volume, recycler)["spec"]["volumes"][0]
    found = ((pod.get("spec") or {}).get("volumes") or [{}])[0]
    return all(
        (found.get(source) or {}).get(name) == value
        for source in ("hostPath", "nfs")
        for name, value in (wanted.get(source) or {}).items()
    )


def failure_of(pod: Mapping[str, Any]) -> str | None:
    """Return the error message of a recycler pod that failed; "" if it succeeded; None while it runs."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return ""
    if status.get("phase") == "Failed":
        return status.get("message") or "pod failed, pod.Status.Message unknown"
    return None
