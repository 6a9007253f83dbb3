"""Index of pods by the PersistentVolumeClaims that they use."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.volumes import claim_keys

CLAIMS = "claims"  # name of the index
ANY = "*"  # value in the index of each pod that uses a claim


def values_of_pod(pod: Object) -> Iterable[str]:
    """Return "namespace/name" of each claim of a pod, also those of its ephemeral volumes, and ANY if it has one."""
    claims = list(claim_keys(pod))
    return [*claims, ANY] if claims else claims


PODS_BY_CLAIM = Index(PODS, CLAIMS, values_of_pod)
