"""Index of pods by the PersistentVolumeClaims that they use."""

from __future__ import annotations

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.resources import PODS
from kcm.protocols.volumes import claim_keys

CLAIMS = "claims"
PODS_BY_CLAIM = Index(PODS, CLAIMS, claim_keys)  # by "namespace/name" of each claim, also that of an ephemeral volume
