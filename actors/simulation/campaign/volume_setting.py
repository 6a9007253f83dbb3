"""The setting of seeded runs about volumes, the claims for them, and the pods that use these."""

from __future__ import annotations

from kcm.actors.controllers.storage import (
    attributes_class_protection,
    claim_protection,
    persistentvolume_binder,
    volume_protection,
)
from kcm.actors.simulation.campaign.setting import Setting

VOLUMES_TOO = Setting(
    name="volumes",
    controllers=(
        persistentvolume_binder.SPEC,
        claim_protection.SPEC,
        volume_protection.SPEC,
        attributes_class_protection.SPEC,
    ),
)
