"""Settings of seeded runs: `workloads` (setting.py), one setting per domain, `everything` and `swarm`.

The command line (`--setting`), the replay of a failure, and other processes find a setting by its name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.simulation.campaign.combined_settings import combined, switched_on_by_name
from kcm.actors.simulation.campaign.domain_settings import (
    ACCOUNTS_SETTING,
    ATTACHMENTS_SETTING,
    AUTOSCALERS_SETTING,
    BOOTSTRAP_SETTING,
    BUDGETS_SETTING,
    CERTIFICATES_SETTING,
    CLAIMS_SETTING,
    CRON_JOBS_FOR_LONG,
    CRON_JOBS_SETTING,
    DAEMONS_SETTING,
    DETACHED,
    DEVICE_TAINTS_SETTING,
    DEVICES_SETTING,
    FINISHED_SETTING,
    GARBAGE_SETTING,
    JOBS_SETTING,
    MIGRATIONS_SETTING,
    NAMESPACES_SETTING,
    NODES_SETTING,
    POD_CERTIFICATES_SETTING,
    POLICIES_SETTING,
    QUOTAS_SETTING,
    ROLES_SETTING,
    SERVICE_RANGES_SETTING,
    SERVICES_SETTING,
    STATEFUL_SETTING,
    STORAGE_VERSIONS_SETTING,
    VOLUMES_SETTING,
    draw_node_plan,
    flags,
)
from kcm.actors.simulation.campaign.replica_settings import GROUPS_SETTING
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.trials.scenario import Scenario
from kcm.actors.simulation.trials.trial import Trial

# Everything: all settings on one cluster, with all built-in controllers, also those that are off by default.

PARTS = (
    USUAL,
    NODES_SETTING,
    SERVICES_SETTING,
    GARBAGE_SETTING,
    ACCOUNTS_SETTING,
    BUDGETS_SETTING,
    NAMESPACES_SETTING,
    FINISHED_SETTING,
    STATEFUL_SETTING,
    DAEMONS_SETTING,
    JOBS_SETTING,
    CERTIFICATES_SETTING,
    QUOTAS_SETTING,
    BOOTSTRAP_SETTING,
    ROLES_SETTING,
    AUTOSCALERS_SETTING,
    VOLUMES_SETTING,
    CRON_JOBS_SETTING,
    POLICIES_SETTING,
    SERVICE_RANGES_SETTING,
    CLAIMS_SETTING,
    MIGRATIONS_SETTING,
    STORAGE_VERSIONS_SETTING,
    DEVICES_SETTING,
    DEVICE_TAINTS_SETTING,
)
# First, so that controllers run in the order of the built-in ones.
_ALL_ON = Setting(
    name="all-on",
    controllers=BUILT_IN,
    options=lambda _scenario: flags(switched_on_by_name(BUILT_IN)),
)
EVERYTHING = replace(
    combined("everything", _ALL_ON, *PARTS),
    draw=draw_node_plan,
    # A user's pod tolerates a silent node for the default of 300 s. This time begins when the node is tainted as
    # unreachable, at the eviction rate of its zone. Afterwards the pod counts towards a quota for another minute, and
    # its volumes may have to be detached by force.
    settled=DETACHED,
)
# Swarm testing: the same controllers, invariants and faults, but in each seed only the users of some trials act. A run
# costs a third as much, and bugs are found that the actions of other trials would hide.
# Source: A. Groce, C. Zhang, E. Eide, Y. Chen, J. Regehr, "Swarm Testing", ISSTA 2012.
SWARM_SHARES = {1 / 8: 8, 1 / 4: 4, 1 / 2: 2, 1: 1}  # share of trials whose users act: weight among 15 seeds


def _some_trials(scenario: Scenario, trials: Sequence[Trial]) -> Iterable[Trial]:
    """Draw the trials whose user actions are carried out: at least one, in the given order."""
    chance = scenario.chance("swarm")
    (share,) = chance.choices([*SWARM_SHARES], weights=[*SWARM_SHARES.values()])
    chosen = set(chance.sample(range(len(trials)), max(1, round(share * len(trials)))))
    return [trial for number, trial in enumerate(trials) if number in chosen]


SWARM = replace(EVERYTHING, name="swarm", with_users=_some_trials)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            *PARTS,
            ATTACHMENTS_SETTING,
            POD_CERTIFICATES_SETTING,
            CRON_JOBS_FOR_LONG,
            GROUPS_SETTING,
            EVERYTHING,
            SWARM,
        )
    }
)


def setting_named(name: str) -> Setting:
    """Return a built-in setting by its name, or import "module:ATTRIBUTE". Raises ValueError for an unknown name."""
    if name in SETTINGS:
        return SETTINGS[name]
    if ":" not in name:
        raise ValueError(f"unknown setting {name!r}: expected {', '.join(SETTINGS)}, or module:ATTRIBUTE")
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as err:
        raise ValueError(f"cannot import {name!r}: {err}") from err
    if not isinstance(found, Setting):
        raise ValueError(f"{name!r} is not a Setting but {found!r:.100}")
    return found


def importable_name(setting: Setting) -> str:
    """Return the name by which `setting_named` finds this setting in another process.

    Raises ValueError if the name is unknown, or belongs to another setting.
    """
    try:
        found = setting_named(setting.name)
    except ValueError as err:
        raise ValueError(f"other processes find a setting by its name: {err}") from err
    if found is not setting:
        raise ValueError(
            f"other processes find a setting by its name, and {setting.name!r} is another setting: "
            "name it module:ATTRIBUTE, after its place"
        )
    return setting.name
