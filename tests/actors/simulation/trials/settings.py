"""Choice of a setting that runs a controller."""

from __future__ import annotations

from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.campaign.settings import SETTINGS


def setting_with(spec: ControllerSpec) -> Setting:
    """Return a setting that runs the controller: the one of nodes if it does, else the first. Fails without one."""
    found = [setting for setting in SETTINGS.values() if spec in setting.specs(None)]
    assert found, f"no setting has {spec.name}"
    return NODES_SETTING if NODES_SETTING in found else found[0]
