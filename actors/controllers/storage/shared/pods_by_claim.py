"""The pods that use a claim."""

from __future__ import annotations

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.resources import PODS
from kcm.protocols.volumes import claim_keys

CLAIMS = "claims"
PODS_BY_CLAIM = Index(PODS, CLAIMS, claim_keys)  # by "namespace/name" of each claim, of the pod's own ones too
