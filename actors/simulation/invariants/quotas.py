"""Invariants of resource quotas: no quota is exceeded, and the usage in a status existed at some time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, decoded, only
from kcm.protocols.objects import (
    Key,
    Object,
    key_of,
    name_of,
    namespace_of,
    resource_version_of,
    split_key,
)
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota.amounts import ZERO, Amounts, equal, growth, in_words, masked, minus, read_amounts
from kcm.protocols.quota.calculation import calculate_usage
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.quota.pods import Pods, gone_at
from kcm.protocols.quota.services import Services
from kcm.protocols.quota.volume_claims import VolumeClaims
from kcm.protocols.resources import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SECRETS, SERVICES
from kcm.protocols.versions import parse_version
from kcm.runtime.apiserver.storage.store import ADDED, MODIFIED, StoreChange
from kcm.runtime.faults.vocabulary import FaultKind

COUNTED = {resource.name: resource for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, CONFIGMAPS, SECRETS)}

_JUST = 0.001  # seconds after the end of its grace period at which a terminating pod no longer counts


def evaluators_at(now: float) -> tuple[Evaluator, ...]:
    """Return the evaluators for the usage of the resources in COUNTED. now: Unix seconds."""
    return Pods(lambda: now), Services(), VolumeClaims(), Evaluator("configmaps"), Evaluator("secrets")


def actual_usage(
    cluster: SimulatedCluster, quota: Object, names: Iterable[str], *, ahead: float = 0.0
) -> Mapping[str, Quantity]:
    """Return the usage that a quota limits, computed from the objects on the server.

    names: names of the limits to compute, for example "requests.cpu".
    ahead: seconds by which the manager's clock is ahead.
    """
    namespace = namespace_of(quota)

    def listed(evaluator: Evaluator) -> list[Object]:
        return cluster.list(COUNTED[evaluator.resource], namespace)

    usage = calculate_usage(quota, names, evaluators_at(cluster.clock.now() + ahead), listed)
    if usage.errors:
        raise usage.errors[0]
    return usage.used


class QuotasAreNotExceeded:
    """Invariant: no object is created that exceeds the limits in the status of a quota.

    Usage may exceed a quota if it is older than the quota or its present limits, but it must not grow. Objects that are
    created after the controller counted, and before it writes new limits to the status, are charged only by the next
    count, so usage may exceed the quota by these objects. A terminating pod stops counting earlier for a manager whose
    clock is ahead.
    """

    name = "no quota is exceeded"
    observes = (only(Committed, *COUNTED, RESOURCE_QUOTAS.name),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._unseen: dict[Key, Mapping[str, Quantity]] = {}  # by quota: usage that its first count has missed
        jumps = (fault.seconds for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._ahead = max((0.0, *jumps))

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            created = [change for change in observation.changes if change.type == ADDED and change.storage in COUNTED]
            for change in observation.changes:
                if change.storage == RESOURCE_QUOTAS.name and not created:
                    self._counted(change)
            for change in created:
                self._check(change.storage, split_key(change.key)[0], fail)

    def _counted(self, change: StoreChange) -> None:
        """Update the usage that a quota does not charge yet, after its status was written.

        When the controller writes a new limit, its count does not include objects created since it listed them.
        """
        self._unseen.pop(change.key, None)
        if change.type == MODIFIED:
            quota, before = decoded(change.raw), decoded(change.previous)
            known = read_amounts((quota.get("status") or {}).get("used"))
            fresh = known.keys() - ((before.get("status") or {}).get("hard") or {}).keys()
            really = actual_usage(self._cluster, quota, fresh, ahead=self._ahead)
            self._unseen[change.key] = growth(masked(known, fresh), really)

    def _check(self, resource: str, namespace: str, fail: Fail) -> None:
        for quota in self._cluster.shown(RESOURCE_QUOTAS, namespace):
            status = quota.get("status") or {}
            hard, known = read_amounts(status.get("hard")), read_amounts(status.get("used"))
            used = actual_usage(self._cluster, quota, known.keys() & hard.keys(), ahead=self._ahead)
            unseen = self._unseen.get(key_of(quota), {})
            for name, quantity in used.items():
                charged = minus(quantity, unseen.get(name, ZERO))
                if charged.value > hard[name].value and charged.value > known[name].value:
                    fail(
                        f"creation in {resource} raises {name} of quota {name_of(quota)} to {quantity}; its status has "
                        f"{known[name]} used, limit {hard[name]}"
                    )


class QuotaUsageExisted:
    """Invariant: the controller writes the limits of the spec to the status, and a usage that existed.

    A count is based on a version of the quota, which the write then replaces, and on informer caches that contain all
    objects that were charged to this version. So the count of each resource must be its usage at some moment between
    that version and the write. The usage of a terminating pod also depends on the clock of the process.
    """

    name = "counted usage of a quota existed"
    observes = (only(Committed, *COUNTED, RESOURCE_QUOTAS.name),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._changes: dict[tuple[str, str], list[StoreChange]] = {}  # by resource and namespace
        self._written: dict[int, float] = {}  # by version of a quota: time of the write, Unix seconds
        jumps = (fault.seconds for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._offsets = (0.0, *dict.fromkeys(jumps))

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        now = self._cluster.clock.now()
        charged = False
        for change in observation.changes:
            if change.storage in COUNTED:
                self._changes.setdefault((change.storage, split_key(change.key)[0]), []).append(change)
                charged = True
            elif change.storage == RESOURCE_QUOTAS.name:
                self._written[change.revision] = now
        if charged:
            return  # changes of usage by admission, not by the controller
        for change in observation.changes:
            if change.storage == RESOURCE_QUOTAS.name and change.type == MODIFIED:
                self._check(decoded(change.raw), decoded(change.previous), fail)

    def _check(self, quota: Object, before: Object, fail: Fail) -> None:
        status, replaced = quota.get("status") or {}, before.get("status") or {}
        if status == replaced:
            return
        hard, wanted = read_amounts(status.get("hard")), read_amounts(quota["spec"].get("hard"))
        if not equal(hard, wanted):
            fail(f"status of quota {key_of(quota)} has limits {in_words(hard)}, its spec {in_words(wanted)}")
        used, known = read_amounts(status.get("used")), read_amounts(replaced.get("used"))
        changed = {name for name, quantity in used.items() if name not in known or known[name].value != quantity.value}
        version = parse_version(resource_version_of(before)) or 0
        for evaluator in evaluators_at(0.0):
            names = evaluator.matching(used)
            if not changed.intersection(names):
                continue
            claimed = masked(used, names)
            found = list(self._counts(quota, names, evaluator.resource, version))
            if not any(equal(claimed, usage) for usage in found):
                possible = " or ".join(dict.fromkeys(in_words(usage) for usage in found))
                fail(
                    f"status of quota {key_of(quota)} has {in_words(claimed)} used, based on version {version}; "
                    f"actual usage since then: {possible}"
                )

    def _counts(self, quota: Object, names: Iterable[str], resource: str, version: int) -> Iterator[Amounts]:
        """Yield each usage of the resource that existed between that version of the quota and now."""
        now = self._cluster.clock.now()
        since = self._written.get(version, now)
        for objects in self._states(resource, namespace_of(quota), version):
            gone = (gone_at(obj) for obj in objects) if resource == PODS.name else ()
            ends = [time + _JUST for time in gone if time is not None]
            for offset in self._offsets:
                for time in (since + offset, now + offset, *ends):
                    if since + offset <= time <= now + offset:
                        yield self._used(quota, names, resource, objects, time)

    def _states(self, resource: str, namespace: str, version: int) -> Iterator[Sequence[Object]]:
        """Yield the objects of a resource as they were at each version, from the present back to `version`."""
        objects: dict[Key, Object] = {key_of(obj): obj for obj in self._cluster.shown(COUNTED[resource], namespace)}
        yield list(objects.values())
        for change in reversed(self._changes.get((resource, namespace), [])):
            if change.revision <= version:
                return
            if change.type == ADDED:
                objects.pop(change.key, None)
            else:
                objects[change.key] = decoded(change.previous)
            yield list(objects.values())

    @staticmethod
    def _used(
        quota: Object, names: Iterable[str], resource: str, objects: Sequence[Object], now: float
    ) -> Mapping[str, Quantity]:
        mine = [evaluator for evaluator in evaluators_at(now) if evaluator.resource == resource]
        return calculate_usage(quota, names, mine, lambda _: objects).used
