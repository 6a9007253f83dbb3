"""Index of pods by their claims."""

from __future__ import annotations

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.resources import PODS
from kcm.protocols.volumes import claim_keys

CLAIMS = "claims"
PODS_BY_CLAIM = Index(PODS, CLAIMS, claim_keys)  # by keys of claims, including those of ephemeral volumes
