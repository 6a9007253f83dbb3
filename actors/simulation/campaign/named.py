"""Settings by their names: how the command line, a replay and other processes find one."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from kcm.actors.simulation.campaign.account_setting import ACCOUNTS_TOO
from kcm.actors.simulation.campaign.autoscaler_setting import AUTOSCALERS_TOO
from kcm.actors.simulation.campaign.bootstrap_setting import BOOTSTRAP_TOO
from kcm.actors.simulation.campaign.budget_setting import BUDGETS_TOO
from kcm.actors.simulation.campaign.certificate_setting import CERTIFICATES_TOO, POD_CERTIFICATES_TOO
from kcm.actors.simulation.campaign.cronjob_setting import CRON_JOBS_FOR_LONG, CRON_JOBS_TOO
from kcm.actors.simulation.campaign.daemon_setting import DAEMONS_TOO
from kcm.actors.simulation.campaign.everything_setting import everything
from kcm.actors.simulation.campaign.finished_setting import FINISHED_TOO
from kcm.actors.simulation.campaign.garbage_setting import GARBAGE_TOO
from kcm.actors.simulation.campaign.job_setting import JOBS_TOO
from kcm.actors.simulation.campaign.namespace_setting import NAMESPACES_TOO
from kcm.actors.simulation.campaign.node_setting import NODES_TOO
from kcm.actors.simulation.campaign.quota_setting import QUOTAS_TOO
from kcm.actors.simulation.campaign.role_setting import ROLES_TOO
from kcm.actors.simulation.campaign.service_setting import SERVICES_TOO
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.stateful_setting import STATEFUL_TOO
from kcm.actors.simulation.campaign.swarm_setting import swarm
from kcm.actors.simulation.campaign.volume_setting import VOLUMES_TOO

PARTS = (
    USUAL,
    NODES_TOO,
    SERVICES_TOO,
    GARBAGE_TOO,
    ACCOUNTS_TOO,
    BUDGETS_TOO,
    NAMESPACES_TOO,
    FINISHED_TOO,
    STATEFUL_TOO,
    DAEMONS_TOO,
    JOBS_TOO,
    CERTIFICATES_TOO,
    QUOTAS_TOO,
    BOOTSTRAP_TOO,
    ROLES_TOO,
    AUTOSCALERS_TOO,
    VOLUMES_TOO,
    CRON_JOBS_TOO,
)
EVERYTHING = everything(PARTS)
SWARM = swarm(EVERYTHING)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for setting in (*PARTS, POD_CERTIFICATES_TOO, CRON_JOBS_FOR_LONG, EVERYTHING, SWARM)}
)


def setting_named(name: str) -> Setting:
    """One of ours, or "module:ATTRIBUTE" of another package. Raises ValueError."""
    if name in SETTINGS:
        return SETTINGS[name]
    if ":" not in name:
        raise ValueError(f"{name!r} is none of {', '.join(SETTINGS)}, nor module:ATTRIBUTE")
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as err:
        raise ValueError(f"{name!r} cannot be had: {err}") from err
    if not isinstance(found, Setting):
        raise ValueError(f"{name!r} is no Setting but {found!r:.100}")
    return found


def name_for_others(setting: Setting) -> str:
    """By which another process finds this very setting. Raises ValueError if it would find another one, or none."""
    try:
        found = setting_named(setting.name)
    except ValueError as err:
        raise ValueError(f"a setting goes to other processes by its name: {err}") from err
    if found is not setting:
        raise ValueError(
            f"a setting goes to other processes by its name, and {setting.name!r} leads to another one: "
            "name it module:ATTRIBUTE, after where it is"
        )
    return setting.name
