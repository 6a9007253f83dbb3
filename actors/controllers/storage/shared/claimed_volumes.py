"""PersistentVolumes that pods use through claims.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/util/util.go, CreateVolumeSpec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.reconciliation import controlled_by
from kcm.protocols.objects import Object, key_of, make_key, namespace_of, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import ephemeral_claim_name, phase_of, volume_name_of
from kcm.runtime.tables.tables import Tables


class UnresolvedError(ValueError):
    """Raised if the volume of a pod is not known yet: its claim is missing or unbound, or belongs to another pod."""


def claimed_volume(tables: Tables, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Object:
    """Return the PersistentVolume of a pod's volume with a claim, or of a generic ephemeral volume.

    Raises UnresolvedError unless the claim and the PersistentVolume refer to each other, and the pod controls the claim
    of an ephemeral volume.
    """
    source, namespace = volume.get("persistentVolumeClaim"), namespace_of(pod)
    claim_name = ephemeral_claim_name(pod, volume) if source is None else source.get("claimName") or ""
    claim = tables[PERSISTENT_VOLUME_CLAIMS].get(make_key(namespace, claim_name))
    if claim is None:
        raise UnresolvedError(f"claim {namespace}/{claim_name} does not exist")
    if volume.get("ephemeral") is not None and not controlled_by(claim, pod):
        raise UnresolvedError(f"claim {key_of(claim)} was not created for pod {key_of(pod)}")
    name = volume_name_of(claim)
    if phase_of(claim) != "Bound" or not name:
        raise UnresolvedError(f"claim {key_of(claim)} is not bound")
    found = tables[PERSISTENT_VOLUMES].get(name)
    if found is None:
        raise UnresolvedError(f"volume {name} does not exist")
    reference = (found.get("spec") or {}).get("claimRef")
    if reference is None or (reference.get("uid") or "") != uid_of(claim):
        raise UnresolvedError(f"volume {name} does not refer to claim {key_of(claim)}")
    return found
