"""The setting of seeded runs about bootstrap tokens: what they sign, and that they go in time."""

from __future__ import annotations

from kcm.actors.controllers.bootstrap import signer, token_cleaner
from kcm.actors.simulation.campaign.combined_settings import switched_on_by_name
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import Setting

OF_TOKENS = (signer.SPEC, token_cleaner.SPEC)
BOOTSTRAP_TOO = Setting(
    name="bootstrap",
    controllers=OF_TOKENS,
    options=lambda _scenario: given(switched_on_by_name(OF_TOKENS)),
)
