"""Reconciler of the storage version migrator: runs migrations, sets their checkpoints, and rewrites objects.

The checkpoint of a migration is status.resourceVersion: objects that were written later have the storage version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.apimachinery.storageversionmigrator.migrations import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    GroupResource,
    checkpoint_of,
    completed,
    ended_status,
    has_condition,
    is_retriable,
    is_terminal,
    is_well_formed,
    resource_of,
    runner_plan,
    started_status,
    with_condition,
)
from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.reconciliation import Because, Reconciliation, Retry, Step, apply, must, together, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, List
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, metadata, name_of, resource_version_of, split_key
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, STORAGE_VERSION_MIGRATIONS, Resource
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister, UnreadableError
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MIGRATOR_MANAGER, RUNNER_MANAGER = "storage-version-migrator-controller", "migration-runner-controller"
VERBS = ("update", "patch", "list")  # verbs that a resource must support
NO_NAMESPACE = "@fake:svm_ns!"  # an invalid name, so that the list is empty
GRACE = 60.0  # seconds after its creation in which a migration waits for its resource
WAIT = 1.0  # seconds until a table or discovery that is not up to date is checked again
PATCHES = 10  # patches of one migration in flight
CONFLICTS = 5  # attempts to write a CustomResourceDefinition


def empty_apply(resource: Resource, key: Key, uid: str, version: int) -> Command:
    """Return the apply that changes no field of an object.

    The uid and the resourceVersion are preconditions: an object that was deleted is not created again, and an object
    that was updated meanwhile is stored in the present version already.
    """
    namespace, name = split_key(key)
    meta = {"name": name, "uid": uid, "resourceVersion": str(version)}
    if namespace:
        meta["namespace"] = namespace
    return apply(resource, {"metadata": meta}, manager=MIGRATOR_MANAGER)


class StorageVersionMigrator:
    """Reconciler of the three queues of the storage version migrator."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        resource: Resource = STORAGE_VERSION_MIGRATIONS,
    ) -> None:
        self._tables, self._clock, self._log = tables, clock, log
        self._migrations, self._resource = tables[resource], resource
        self._kinds = ServedKinds()

    def on_message(self, message: Any) -> tuple[()]:
        return self._kinds.on_message(message)

    # --- migration-runner-controller

    def run(self, resource: GroupResource) -> Reconciliation:
        """Start the next migration of a resource, and complete those that have ended."""
        plan = runner_plan(self._migrations.objects(), resource)
        for migration in plan.ended:
            name, succeeded = name_of(migration), has_condition(migration, SUCCEEDED)
            yield Because(f"migration {name} has {'succeeded' if succeeded else 'failed'}: completes it")
            yield from self._apply_to_definition(resource, partial(ended_status, migration=name, succeeded=succeeded))
            yield from self._write_status(completed(migration, self._clock.now()))
            self._log.info("storage version migration completed", key=name, succeeded=succeeded)
        if plan.promoted is not None:
            name = name_of(plan.promoted)
            yield Because(f"starts migration {name}: no other migration of {resource} runs")
            yield from self._apply_to_definition(resource, partial(started_status, migration=name))
            now = self._clock.now()
            yield from self._write_status(
                with_condition(plan.promoted, RUNNING, "MigrationRunning", "The migration is running", now)
            )
            self._log.info("storage version migration started", key=name, resource=str(resource))
        return None

    def _apply_to_definition(self, resource: GroupResource, status_of: Callable[..., Object | None]) -> Step[None]:
        """Apply a status to the CustomResourceDefinition of a resource, if there is one.

        Its resourceVersion is a precondition. After a conflict it is read again.

        status_of: function of the definition that was read and the time `now`. Returns the status to apply; None to
            apply nothing.
        """
        key = f"{resource.resource}.{resource.group}"
        for attempt in range(1, CONFLICTS + 1):
            found = yield from must(Get(CUSTOM_RESOURCE_DEFINITIONS.id, key), but=(NotFound,))
            if not isinstance(found, Done):
                return
            definition = decode_object(found.body)
            status = status_of(definition, now=self._clock.now())
            if status is None:
                return
            meta = {"name": key, "resourceVersion": resource_version_of(definition)}
            command = apply(
                CUSTOM_RESOURCE_DEFINITIONS,
                {"metadata": meta, "status": status},
                force=True,
                manager=RUNNER_MANAGER,
                subresource="status",
            )
            written = yield from must(command, but=(Conflict,) if attempt < CONFLICTS else ())
            if isinstance(written, Done):
                return

    # --- resource-version-controller

    def set_checkpoint(self, key: Key) -> Reconciliation:
        """Write the current resourceVersion of the resource to the status of a running migration."""
        migration = self._migrations.get(key)
        if migration is None or not has_condition(migration, RUNNING) or is_terminal(migration):
            return None
        if checkpoint_of(migration):
            return None
        resource = resource_of(migration)
        served = self._find(resource)
        if served is None:
            self._wait_within_grace(migration, "resource does not exist in our rest mapper, requeuing to attempt again")
            yield from self._fail(migration, "resource does not exist in discovery")
            return None
        place = f"{served.group}/{served.version}, Resource={served.plural}"
        if not set(VERBS).issubset(served.verbs):
            message = f'resource "{place}" does not support discovery operations: [{" ".join(VERBS)}]'
            self._log.error("resource is not able to be migrated, not retrying", key=key, resource=place)
            yield from self._fail(migration, message)
            return None
        namespace = NO_NAMESPACE if served.namespaced else ""
        listed = yield from must(List(served.resource.id, namespace, metadata_only=True, limit=1))
        assert isinstance(listed, Done)
        version = (decode_object(listed.body).get("metadata") or {}).get("resourceVersion") or ""
        if not is_well_formed(version):
            message = f"latest resourceVersion for {place} is not valid: {_malformed(version)}"
            yield from self._fail(migration, message)
            return None
        yield Because(f"migrates objects up to resourceVersion {version}")
        status = {**(migration.get("status") or {}), "resourceVersion": version}
        yield from self._write_status({**migration, "status": status})
        return None

    # --- storage-version-migrator-controller

    def migrate(self, key: Key) -> Reconciliation:
        """Rewrite the objects that are older than the checkpoint."""
        migration = self._migrations.get(key)
        if migration is None or is_terminal(migration) or not checkpoint_of(migration):
            return None
        checkpoint = checkpoint_of(migration)
        served = self._find(resource_of(migration))
        if served is None:
            self._wait_within_grace(migration, "resource does not exist in rest mapper, requeuing to attempt again")
            yield from self._fail(migration, _unhandled("unable to obtain GVR from discovery"))
            return None
        lister = self._table(served.resource)
        if lister is None:
            self._wait_within_grace(migration, "resource does not exist in GC, requeuing to attempt again")
            # Upstream's text: it formats an error that is nil.
            yield from self._fail(migration, _unhandled("resource does not exist in GC: %!w(<nil>)"))
            return None
        if not is_well_formed(checkpoint):
            message = f"error comparing resource versions between GC and SVM resource: {_malformed(checkpoint)}"
            yield from self._fail(migration, _unhandled(message))
            return None
        if lister.version < int(checkpoint):
            raise Retry(
                "GC cache is not up to date, requeuing to attempt again. "
                f"gcListResourceVersion: {lister.version}, listResourceVersion: {checkpoint}",
                after=WAIT,
            )
        yield Because(f"rewrites the objects up to resourceVersion {checkpoint}")
        failure = yield from self._rewrite(served.resource, lister, int(checkpoint))
        if failure is not None:
            self._log.error("failed to migrate the resource", key=key, error=failure)
            yield from self._fail(migration, _unhandled(failure))
            return None
        now = self._clock.now()
        yield from self._write_status(with_condition(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "", now))
        return None

    def _rewrite(self, resource: Resource, lister: Lister, checkpoint: int) -> Step[str | None]:
        """Send the patches. Returns the error that ends the migration; None if all objects are migrated.

        Raises CommandError for an error that is retried, UnreadableError for an object that cannot be read.

        Source: runMigration.
        """
        for unreadable in lister.unreadable():
            if unreadable.version <= checkpoint:
                raise UnreadableError(resource, unreadable)
        entries = sorted(
            (entry for entry in lister.entries() if entry.resource_version <= checkpoint), key=lambda entry: entry.key
        )
        for start in range(0, len(entries), PATCHES):
            commands = [
                empty_apply(resource, entry.key, entry.uid, entry.resource_version)
                for entry in entries[start : start + PATCHES]
            ]
            outcomes = yield from together(commands)
            for command, outcome in zip(commands, outcomes, strict=True):
                if is_retriable(outcome):
                    raise CommandError(command, outcome)
            for outcome in outcomes:
                if not isinstance(outcome, Done | Conflict):
                    return outcome.message
        return None

    # --- shared

    def _find(self, resource: GroupResource) -> ServedResource | None:
        """Return the resource in the server's preferred version; None if it is not served. Source: resourceFor."""
        return next((served for served in self._kinds.served() if (served.group, served.plural) == resource), None)

    def _table(self, resource: Resource) -> Lister | None:
        """Return the lister of the garbage collector's table; None if there is none, or it is not synced."""
        try:
            return self._tables[resource]
        except KeyError:  # a TableMissingError, or of a controller without discovered tables
            return None

    def _wait_within_grace(self, migration: Object, why: str) -> None:
        """Raise Retry while the migration is new. Discovery may not contain a new custom resource yet."""
        if parse_time(metadata(migration)["creationTimestamp"]) + GRACE > self._clock.now():
            raise Retry(why, after=WAIT)

    def _fail(self, migration: Object, message: str) -> Step[None]:
        yield Because(f"fails: {message}")
        failed = with_condition(migration, FAILED, "StorageVersionMigrationFailed", message, self._clock.now())
        yield from self._write_status(failed)

    def _write_status(self, migration: Object) -> Step[None]:
        yield from must(update(self._resource, migration, subresource="status"), but=(NotFound,))


def _malformed(version: str) -> str:
    return f"resource version is not well formed: {version}"


def _unhandled(error: str) -> str:
    return f"migration encountered unhandled error: {error}"
