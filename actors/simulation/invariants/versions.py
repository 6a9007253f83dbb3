"""Invariants of storage version migrations, and of the versions that API servers report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, make_key, name_of
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, STORAGE_VERSION_MIGRATIONS, STORAGE_VERSIONS
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED
from kcm.runtime.faults.vocabulary import OF_CALLS, OF_WEBHOOKS, FaultKind

COLLECTOR = "storage-version-garbage-collector"  # a client
CUSTOM_GROUP = ".example.com"  # of the custom resources in trials
# Faults that delay neither discovery nor tables.
UNRELATED = (*OF_CALLS, *OF_WEBHOOKS, FaultKind.NODE_SILENT, FaultKind.NODE_FLAPPING, FaultKind.ZONE_SILENT)
GRACE = 60.0  # seconds after its creation in which a migration waits until discovery contains its resource


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    condition = find_condition((obj.get("status") or {}).get("conditions"), type_)
    return condition is not None and condition.get("status") == "True"


def has_ended(migration: Mapping[str, Any]) -> bool:
    return is_true(migration, "Succeeded") or is_true(migration, "Failed")


class StoredVersionsAreComplete:
    """Invariant: status.storedVersions of a CustomResourceDefinition contains the version of every stored object.

    Otherwise a user could remove a version from the definition, and its objects could not be read any more.
    """

    name = "stored versions are complete"
    observes = (Committed,)

    def __init__(self) -> None:
        self._stored: dict[str, dict[str, str]] = {}  # by resource and key: the version of the stored object

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage == CUSTOM_RESOURCE_DEFINITIONS.name and change.type == MODIFIED:
                self._check(decoded(change.raw), fail)
            elif change.storage.endswith(CUSTOM_GROUP):
                stored = self._stored.setdefault(change.storage, {})
                stored.pop(change.key, None)
                if change.type != DELETED:
                    stored[change.key] = decoded(change.raw)["apiVersion"].rpartition("/")[2]

    def _check(self, definition: Object, fail: Fail) -> None:
        listed = (definition.get("status") or {}).get("storedVersions") or ()
        missing = set(self._stored.get(name_of(definition), {}).values()).difference(listed)
        if missing:
            fail(f"{name_of(definition)} lists {listed}, and objects are stored in {sorted(missing)}")


class MigrationsFollowOneAnother:
    """Invariant: one migration of a resource runs at a time, and a migration that has ended stays so.

    A migration ends only after its checkpoint was set, or if it failed.
    """

    name = "migrations of a resource follow one another"
    observes = (only(Committed, STORAGE_VERSION_MIGRATIONS.name),)

    def __init__(self) -> None:
        self._migrations: dict[str, Object] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage != STORAGE_VERSION_MIGRATIONS.name:
                continue
            if change.type == DELETED:
                self._migrations.pop(change.key, None)
                continue
            migration = decoded(change.raw)
            before = {} if change.type == ADDED else decoded(change.previous)
            self._migrations[change.key] = migration
            self._check(migration, before, fail)

    def _check(self, migration: Object, before: Object, fail: Fail) -> None:
        name = name_of(migration)
        if is_true(migration, "Succeeded") and not (migration.get("status") or {}).get("resourceVersion"):
            fail(f"{name} succeeded without a checkpoint")
        if has_ended(before) and is_true(migration, "Running") and not is_true(before, "Running"):
            fail(f"{name} has ended, and is started again")
        if is_true(migration, "Running") and not is_true(before, "Running"):
            running = [name_of(other) for other in self._running(migration["spec"])]
            if len(running) > 1:
                fail(f"migrations {sorted(running)} of the same resource run together")

    def _running(self, spec: Mapping[str, Any]) -> Iterable[Object]:
        return (
            other
            for other in self._migrations.values()
            if other["spec"] == spec and is_true(other, "Running") and not has_ended(other)
        )


class MigrationsOfServedResourcesSucceed:
    """Invariant: a migration succeeds if its resource is served, and fails otherwise.

    As upstream, a migration may fail when its grace period is over by the clock of the manager and the resource is not
    in its tables yet, because this clock is ahead, or because a fault delayed discovery or the tables.
    """

    name = "migrations of served resources succeed"
    observes = (only(Committed, STORAGE_VERSION_MIGRATIONS.name),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage == STORAGE_VERSION_MIGRATIONS.name and change.type == MODIFIED:
                migration = decoded(change.raw)
                if has_ended(migration) and not has_ended(decoded(change.previous)):
                    self._check(migration, fail)

    def _check(self, migration: Object, fail: Fail) -> None:
        name, group = name_of(migration), migration["spec"]["resource"].get("group") or ""
        plural = migration["spec"]["resource"]["resource"]
        custom = f".{group}" == CUSTOM_GROUP
        served = not custom or self._cluster.get(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{group}") is not None
        if is_true(migration, "Succeeded"):
            if not served:
                fail(f"{name} of {plural} succeeded, which are not served")
        elif served and not self._may_fail(migration):
            fail(f"{name} of {plural} failed, which are served")

    def _may_fail(self, migration: Object) -> bool:
        failed = find_condition(migration["status"]["conditions"], "Failed") or {}
        at, created = parse_time(failed["lastTransitionTime"]), parse_time(migration["metadata"]["creationTimestamp"])
        if at < created + GRACE:
            return False
        now, passed = self._cluster.clock.monotonic(), self._cluster.clock.now() - created
        return at > self._cluster.clock.now() or any(
            fault.start <= now and (fault.until is None or fault.until >= now - passed)
            for fault in self._cluster.injector.faults
            if fault.kind not in UNRELATED
        )


class OnlyLostServersAreRemoved:
    """Invariant: the collector removes from a StorageVersion only API servers whose Lease does not exist.

    It changes no other entry, and its commonEncodingVersion is correct.
    """

    name = "only lost API servers are removed"
    observes = (only(Handled, COLLECTOR),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Handled) or observation.client != COLLECTOR:
            return
        for change in observation.changes:
            if change.storage != STORAGE_VERSIONS.name:
                fail(f"{change.type} {change.storage}")
                continue
            before = _servers(decoded(change.previous))
            after = {} if change.type == DELETED else _servers(decoded(change.raw))
            for server in before.keys() - after.keys():
                if self._cluster.get(LEASES, make_key("kube-system", server)) is not None:
                    fail(f"{change.key}: {server} is removed, and has a Lease")
            if any(before.get(server) != entry for server, entry in after.items()):
                fail(f"{change.key}: entries change from {before} to {after}")


def _servers(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return {entry["apiServerID"]: entry for entry in (version.get("status") or {}).get("storageVersions") or ()}
