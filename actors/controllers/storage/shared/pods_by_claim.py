"""The pods that use a claim."""

from __future__ import annotations

from actors.reconciliation.specs import Index
from protocols.resources import PODS
from protocols.volumes import claim_keys

CLAIMS = "claims"
PODS_BY_CLAIM = Index(PODS, CLAIMS, claim_keys)  # by "namespace/name" of each claim, of the pod's own ones too
