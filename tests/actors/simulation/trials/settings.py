"""Which setting puts a controller to its trial."""

from __future__ import annotations

from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.campaign.settings import NODES_SETTING, SETTINGS


def setting_with(spec: ControllerSpec) -> Setting:
    """Of several the one with nodes, else the first. Fails for a controller that no seeded run has."""
    found = [setting for setting in SETTINGS.values() if spec in setting.specs(None)]
    assert found, f"no setting has {spec.name}"
    return NODES_SETTING if NODES_SETTING in found else found[0]
