"""Groups of controllers that run under Leases of their own, so that several replicas share the controllers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

REST = "rest"  # group of the controllers that no other group names
MOST_GROUPS = 50
GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
LEASE_LABEL = "kcm.dev/groups-of"  # on the Leases of groups and replicas; its value is the name of the main Lease
GROUP_LABEL = "kcm.dev/group"  # its value is the name of the group
REPLICA_LABEL = "kcm.dev/replica"  # its value is the number of the replica's Lease
COST = "kcm.dev/group-cost"  # annotation of a group's Lease: seconds of work in a second, as its holder measured
CONFIGURATION = "kcm.dev/groups"  # annotation of a replica's Lease: fingerprint of its groups
STATE = "kcm.dev/replica-state"  # annotation of a replica's Lease: a ReplicaState
IDLE_COST = 0.002  # cost of a group of weight 1 without work, so that idle groups are spread as well


class ControllerGroup(Struct, frozen=True, kw_only=True):
    """Controllers that run in the same replica, under one Lease."""

    name: str
    controllers: tuple[str, ...]
    weight: float = 1.0  # expected cost beside that of other groups, before a cost was measured


class ControllerGroups(Struct, frozen=True, kw_only=True):
    """Groups of all controllers of a program. A controller that no group names belongs to the group REST.

    Raises ValueError for an invalid or repeated name, an empty group, and a controller in two groups.
    """

    groups: tuple[ControllerGroup, ...]
    others: Mapping[str, str] = field(default_factory=dict)  # controllers that the groups do not name, with their group

    def __post_init__(self) -> None:
        found: dict[str, str] = {}
        names: set[str] = set()
        if len(self.groups) > MOST_GROUPS:
            raise ValueError(f"there are {len(self.groups)} groups, and at most {MOST_GROUPS} are supported")
        for group in self.groups:
            if not GROUP_NAME.fullmatch(group.name):
                raise ValueError(
                    f"invalid name of a group {group.name!r}: up to 40 lower case letters, digits and hyphens are valid"
                )
            if group.name in names:
                raise ValueError(f"two groups are named {group.name!r}")
            names.add(group.name)
            if not group.controllers:
                raise ValueError(f"group {group.name!r} has no controllers")
            for controller in group.controllers:
                if controller in found:
                    where = "twice in" if found[controller] == group.name else f"in {found[controller]!r} and"
                    raise ValueError(f"{controller} is {where} group {group.name!r}")
                found[controller] = group.name

    def active(self, enabled: Collection[str], known: Iterable[str]) -> ControllerGroups:
        """Return the groups that run something, with REST if a controller that runs belongs to no other group.

        enabled: names of the controllers that run.
        known: names of all controllers, which may be enabled later.
        """
        named = {controller for group in self.groups for controller in group.controllers}
        groups = [
            ControllerGroup(name=group.name, controllers=tuple(sorted(running)), weight=group.weight)
            for group in self.groups
            if (running := [controller for controller in group.controllers if controller in enabled])
        ]
        rest = tuple(sorted(set(enabled) - named))
        if rest or not groups:
            groups.append(ControllerGroup(name=REST, controllers=rest or (REST,)))
        inactive = {controller: groups[-1].name for controller in known if controller not in enabled}
        return ControllerGroups(groups=tuple(groups), others=inactive)

    def group_of(self, controller: str) -> str:
        """Return the name of the group of a controller."""
        for group in self.groups:
            if controller in group.controllers:
                return group.name
        return self.others.get(controller, REST)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the groups and their controllers: replicas share Leases only if theirs are equal."""
        text = ";".join(f"{group.name}={','.join(sorted(group.controllers))}" for group in self.groups)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def identity(self) -> str:
        """Return the holder of the main Lease, under which all replicas with these groups hold it together."""
        return f"kcm-groups_{self.fingerprint}"


def group_lease(main: str, group: str) -> str:
    """Return the name of a group's Lease. main: name of the main Lease."""
    return f"{main}-group-{group}"


def replica_lease(main: str, number: int) -> str:
    """Return the name of the Lease by which a replica shows that it is alive. main: name of the main Lease."""
    return f"{main}-replica-{number}"
