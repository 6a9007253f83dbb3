"""EndpointSlices and pods of large Services that have not changed since the last sync, and need not be compared again.

Otherwise a sync of a Service with 10,000 pods decodes a hundred EndpointSlices and compares every endpoint, whatever
has changed. The planned writes are the same: a slice is left out only if its pods have not changed and, while endpoints
are new, if it is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.network.endpointslice.slice_plan import Group, SlicePlan
from kcm.actors.controllers.network.shared.ports import Ports
from kcm.actors.controllers.network.shared.slice_writes import SliceWrites
from kcm.actors.controllers.network.shared.slices import SERVICE, managed_value
from kcm.protocols.objects import Key, Object, key_of, make_key, resource_version_of
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

LARGE = 500  # pods: Services with fewer pods are always compared as a whole


class _Settled(NamedTuple):
    """Service after a sync. All of its endpoints have the same ports and no hints."""

    version: int  # resourceVersion of the Service
    pods: frozenset[Entry]  # that it selects
    ports: Ports
    slices: Mapping[Key, int]  # resourceVersion of each slice
    members: Mapping[Key, frozenset[Key]]  # pods of the endpoints of each slice
    slice_of: dict[Key, Key]  # slice with the endpoint of each pod


class ChangedPart(NamedTuple):
    """Part of a Service that must be compared."""

    before: _Settled
    pods: list[Entry]
    slices: list[Entry]
    changed: list[Entry]  # pods that are new or have changed since the last sync
    gone: list[Key]  # pods that the Service no longer selects
    others: Group  # endpoints and slices that are left out

    def all_groups(self, groups: Mapping[Ports, Group]) -> dict[Ports, Group]:
        """Return the groups of a plan for this part, with the endpoints and slices that were left out."""
        if not self.others.slices:
            return dict(groups)
        group = groups.get(self.before.ports, Group(0, 0))
        total = Group(group.endpoints + self.others.endpoints, group.slices + self.others.slices)
        return {self.before.ports: total}


class SettledServices:
    """State of large Services after their last sync."""

    def __init__(self, slices: Lister, writes: SliceWrites, *, manager: str, max_endpoints: int) -> None:
        """Create an empty collection.

        manager: value of the managed-by label of the controller.
        max_endpoints: maximum number of endpoints in an EndpointSlice.
        """
        self._slices, self._writes = slices, writes
        self._manager, self._max_endpoints = manager, max_endpoints
        self._services: dict[Key, _Settled] = {}

    def forget(self, service: Key) -> None:
        self._services.pop(service, None)

    def changed_part(
        self, service: Key, version: int, pods: Sequence[Entry], slices: Sequence[Entry]
    ) -> ChangedPart | None:
        """Remove a Service, and return the part of it that must be compared; None if all of it must be.

        version: resourceVersion of the Service.
        pods: all pods that it selects.
        slices: all of its slices.
        """
        before = self._services.pop(service, None)
        if before is None or before.version != version:
            return None
        if before.slices != {entry.key: entry.resource_version for entry in slices}:
            return None
        now = frozenset(pods)
        changed = [*(now - before.pods)]
        keys = {entry.key for entry in changed}
        gone = [entry.key for entry in before.pods - now if entry.key not in keys]
        compared = {before.slice_of[key] for key in (*keys, *gone) if key in before.slice_of}
        if any(key not in before.slice_of for key in keys):
            compared |= {key for key, members in before.members.items() if len(members) < self._max_endpoints}
        wanted = keys.union(*(before.members[key] for key in compared))
        left_out = [len(members) for key, members in before.members.items() if key not in compared]
        return ChangedPart(
            before=before,
            pods=[pod for pod in pods if pod.key in wanted],
            slices=[entry for entry in slices if entry.key in compared],
            changed=changed,
            gone=gone,
            others=Group(sum(left_out), len(left_out)),
        )

    def settle(
        self, service: Key, version: int, pods: Sequence[Entry], plan: SlicePlan, part: ChangedPart | None
    ) -> None:
        """Record a Service after a sync, unless it is small, or another client has written one of its slices meanwhile.

        version, pods: see changed_part.
        plan: the written plan.
        part: the part that was compared; None for the whole Service.
        """
        if len(pods) < LARGE or len(plan.groups) != 1:
            return
        compared = {key_of(slice_): slice_ for slice_ in (*plan.unchanged, *plan.update)}
        expected: dict[Key, int | None] = {} if part is None else {**part.before.slices}
        expected |= {key_of(slice_): parse_version(resource_version_of(slice_)) for slice_ in plan.unchanged}
        expected |= {key_of(slice_): self._writes.version(key_of(slice_)) for slice_ in plan.update}
        slices: dict[Key, int] = {}
        for entry in self._slices.indexed_entries(SERVICE, managed_value(service, self._manager)):
            if entry.key not in expected:
                expected[entry.key] = self._writes.version(entry.key)
                compared[entry.key] = self._slices.object_of(entry)
            if expected[entry.key] != entry.resource_version:
                return
            slices[entry.key] = entry.resource_version
        (ports,) = plan.groups
        members: dict[Key, frozenset[Key]] = {} if part is None else {**part.before.members}
        slice_of = {} if part is None else part.before.slice_of
        for key in (members.keys() - slices.keys()) | compared.keys():
            for pod in members.pop(key, ()):
                slice_of.pop(pod, None)
        for key, slice_ in compared.items():
            if key in slices:
                members[key] = _pods_of(slice_)
                slice_of.update(dict.fromkeys(members[key], key))
        self._services[service] = _Settled(version, frozenset(pods), ports, slices, members, slice_of)


def _pods_of(slice_: Object) -> frozenset[Key]:
    targets = [endpoint.get("targetRef") or {} for endpoint in slice_.get("endpoints") or ()]
    return frozenset(make_key(target.get("namespace") or "", target.get("name") or "") for target in targets)
