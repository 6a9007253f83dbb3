"""Storage version migrator: rewrites the stored objects of a resource in the present storage version.

A StorageVersionMigration names a resource. Three queues process it, one after the other, each with the conditions that
the one before has set:

- migration-runner-controller (key: the resource) sets Running on one migration of a resource at a time, the oldest. For
  a custom resource it also sets the condition StorageMigrating of the CustomResourceDefinition, and removes the old
  versions from its status.storedVersions once the migration has ended.
- resource-version-controller (key: the migration) writes the current resourceVersion of the resource to the status. All
  objects that were written before it may be stored in an old version.
- storage-version-migrator-controller (key: the migration) sends an empty server-side apply for each of these objects,
  and then sets Succeeded or Failed. The API server writes an object in the storage version if it was stored in another.

Input: StorageVersionMigrations, the garbage collector's tables of the metadata of all resources, live
CustomResourceDefinitions. Output: status of both, and the patches.

Source: kubernetes v1.36 pkg/controller/storageversionmigrator/{storageversionmigrator,resourceversion,migrationrunner,
util}.go, cmd/kube-controller-manager/app/storageversionmigrator.go. Differences:
- Up to PATCHES patches are in flight at a time. Upstream sends one after the other, with 20 times the rate limit.
- Each apply to a CustomResourceDefinition contains status.storedVersions. Upstream omits the field unless it changes
  it. An apply without a field removes it if no other manager has it, so that the next migration would be invalid.
- While its table is behind the checkpoint, a migration is retried every second. Upstream's backoff grows to minutes.
- Every response with a status from 500 on is retried, not only 500, 503 and 504.
- An unreadable object that may have to be migrated delays the end of the migration.
- Verbs and scope of a resource come from the discovery actor, which repeats discovery every 10 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.controllers.apimachinery.garbage_collector.options import GarbageCollectorOptions
from kcm.actors.controllers.shared.served_kinds import DISCOVERY_RETRY
from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import (
    Change,
    Interest,
    Reconciliation,
    Retry,
    Step,
    Watch,
    apply,
    itself,
    must,
    together,
    update,
)
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, List
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import (
    Conflict,
    Done,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    metadata,
    name_of,
    resource_version_of,
    split_key,
)
from kcm.protocols.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    STABLE_MIGRATIONS,
    STORAGE_VERSION_MIGRATIONS,
    Resource,
)
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister, UnreadableError
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "storage-version-migrator-controller"
CHECKPOINTS, RUNNER = "resource-version-controller", "migration-runner-controller"
GATES = ("StorageVersionMigrator", "InformerResourceVersion")
RUNNING, SUCCEEDED, FAILED, MIGRATING = "Running", "Succeeded", "Failed", "StorageMigrating"
VERBS = ("update", "patch", "list")  # that a resource must support
NO_NAMESPACE = "@fake:svm_ns!"  # an invalid name, so that the list is empty
GRACE = 60.0  # seconds after its creation in which a migration waits for its resource
WAIT = 1.0  # seconds until a table or discovery that is not up to date is checked again
PATCHES = 10  # patches of one migration in flight
CONFLICTS = 5  # attempts to write a CustomResourceDefinition
SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))
NOTHING = Interest(types=("",))  # no change of an object enqueues a key


class GroupResource(NamedTuple):
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def resource_of(migration: Mapping[str, Any]) -> GroupResource:
    resource = (migration.get("spec") or {}).get("resource") or {}
    return GroupResource(resource.get("group") or "", resource.get("resource") or "")


def has_condition(obj: Mapping[str, Any], type_: str) -> bool:
    """Report whether the condition is True."""
    condition = find_condition((obj.get("status") or {}).get("conditions"), type_)
    return condition is not None and condition.get("status") == "True"


def is_terminal(migration: Mapping[str, Any]) -> bool:
    return has_condition(migration, SUCCEEDED) or has_condition(migration, FAILED)


def with_condition(migration: Mapping[str, Any], type_: str, reason: str, message: str, now: float) -> Object:
    """Return a copy with a further condition that is True. A condition that is True or False is not set again.

    Source: setStatusConditions.
    """
    status = migration.get("status") or {}
    conditions = status.get("conditions") or []
    known = find_condition(conditions, type_)
    if known is not None and known.get("status") in ("True", "False"):
        return dict(migration)
    condition = {
        "type": type_,
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    }
    return {**migration, "status": {**status, "conditions": [*conditions, condition]}}


def completed(migration: Mapping[str, Any], now: float) -> Object:
    """Return a copy in which the condition Running is False."""
    status, generation = migration.get("status") or {}, metadata(migration).get("generation") or 0
    done = {
        "type": RUNNING,
        "status": "False",
        "lastTransitionTime": format_time(now),
        "reason": "MigrationCompleted",
        "message": "Migration completed",
        **({"observedGeneration": generation} if generation else {}),
    }
    conditions = [done if each.get("type") == RUNNING else each for each in status.get("conditions") or ()]
    return {**migration, "status": {**status, "conditions": conditions}}


class RunnerPlan(Struct, frozen=True):
    """Next steps for the migrations of a resource.

    ended: migrations that have ended and are still marked as running.
    promoted: the migration to start; None for none.
    """

    ended: tuple[Object, ...]
    promoted: Object | None


def runner_plan(migrations: Iterable[Object], resource: GroupResource) -> RunnerPlan:
    """Choose the migration of a resource that runs next: the oldest, unless one runs already.

    Source: getSVMsForResource.
    """
    mine = [migration for migration in migrations if resource_of(migration) == resource]
    ended = [each for each in mine if has_condition(each, RUNNING) and is_terminal(each)]
    waiting = [each for each in mine if not has_condition(each, RUNNING) and not is_terminal(each)]
    if any(has_condition(each, RUNNING) and not is_terminal(each) for each in mine):
        waiting = []
    return RunnerPlan(tuple(sorted(ended, key=name_of)), min(waiting, key=_age, default=None))


def _age(migration: Mapping[str, Any]) -> tuple[str, str]:
    return metadata(migration).get("creationTimestamp") or "", name_of(migration)


def started_status(definition: Mapping[str, Any], migration: str, now: float) -> Object:
    """Return the status of a CustomResourceDefinition to apply when a migration starts. Source: markAsActive."""
    message = f"Migration {migration} is running"
    condition = _migrating(definition, status="True", reason="MigrationRunning", message=message, now=now)
    return {"conditions": [condition], **_stored(definition)}


def ended_status(definition: Mapping[str, Any], *, succeeded: bool, now: float) -> Object:
    """Return the status of a CustomResourceDefinition to apply when a migration has ended.

    If the definition has not changed meanwhile, only its storage version remains in storedVersions, also after a failed
    migration, as upstream.

    Source: finishCRDMigration.
    """
    spec, status = definition.get("spec") or {}, definition.get("status") or {}
    known = find_condition(status.get("conditions"), MIGRATING)
    generation = metadata(definition).get("generation") or 0
    unchanged = known is not None and (known.get("observedGeneration") or 0) == generation
    reason, message = "MigrationFailed", "The migration has failed"
    if succeeded:
        reason, message = "MigrationSucceeded", "The migration has succeeded"
        message += (
            " and the stored versions have been updated"
            if unchanged
            else " but the stored versions have not been updated due to a generation mismatch"
        )
    condition = _migrating(definition, status="False", reason=reason, message=message, now=now)
    current = [version["name"] for version in spec.get("versions") or () if version.get("storage")][:1]
    stored = {"storedVersions": current} if unchanged and current else _stored(definition)
    return {"conditions": [condition], **stored}


def _stored(definition: Mapping[str, Any]) -> Object:
    versions = (definition.get("status") or {}).get("storedVersions")
    return {"storedVersions": versions} if versions else {}


def _migrating(definition: Mapping[str, Any], *, status: str, reason: str, message: str, now: float) -> Object:
    return {
        "type": MIGRATING,
        "status": status,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
        "observedGeneration": metadata(definition).get("generation") or 0,
    }


def is_well_formed(version: str) -> bool:
    """Report whether a text is a resourceVersion: a number above 0, without leading zeros."""
    return version.isascii() and version.isdigit() and not version.startswith("0")


def is_retriable(outcome: Outcome) -> TypeGuard[Throttled | ServerFailure | Unknown | Refused]:
    """Report whether the same patch may succeed later. Source: isRetriableError."""
    return isinstance(outcome, Throttled | ServerFailure | Unknown | Refused)


def empty_apply(resource: Resource, key: Key, uid: str, version: int) -> Command:
    """Return the apply that changes no field of an object.

    The uid and the resourceVersion are preconditions: an object that was deleted is not created again, and an object
    that was updated meanwhile is stored in the present version already.
    """
    namespace, name = split_key(key)
    meta = {"name": name, "uid": uid, "resourceVersion": str(version)}
    if namespace:
        meta["namespace"] = namespace
    return apply(resource, {"metadata": meta}, manager=NAME)


class StorageVersionMigrator:
    """Reconciler of the three queues."""

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
        self._served: Sequence[ServedResource] | None = None

    def on_message(self, message: Any) -> tuple[()]:
        """Remember the served resources. Raises TypeError for messages other than TablesChanged and Restarted."""
        match message:
            case TablesChanged(served=served):
                self._served = served
            case Restarted():
                pass
            case _:
                raise TypeError(f"the storage version migrator cannot handle {message!r}")
        return ()

    # --- migration-runner-controller

    def run(self, resource: GroupResource) -> Reconciliation:
        """Start the next migration of a resource, and complete those that have ended."""
        plan = runner_plan(self._migrations.objects(), resource)
        for migration in plan.ended:
            succeeded = has_condition(migration, SUCCEEDED)
            yield from self._apply_to_definition(
                resource, lambda found, ok=succeeded: ended_status(found, succeeded=ok, now=self._clock.now())
            )
            yield from self._write_status(completed(migration, self._clock.now()))
            self._log.info("storage version migration completed", key=name_of(migration), succeeded=succeeded)
        if plan.promoted is not None:
            name = name_of(plan.promoted)
            yield from self._apply_to_definition(resource, lambda found: started_status(found, name, self._clock.now()))
            now = self._clock.now()
            yield from self._write_status(
                with_condition(plan.promoted, RUNNING, "MigrationRunning", "The migration is running", now)
            )
            self._log.info("storage version migration started", key=name, resource=str(resource))
        return None

    def _apply_to_definition(self, resource: GroupResource, status_of: Any) -> Step[None]:
        """Apply a status to the CustomResourceDefinition of a resource, if there is one.

        Its resourceVersion is a precondition. After a conflict it is read again.

        status_of: returns the status for the definition that was read.
        """
        key = f"{resource.resource}.{resource.group}"
        for attempt in range(1, CONFLICTS + 1):
            found = yield from must(Get(CUSTOM_RESOURCE_DEFINITIONS.id, key), but=(NotFound,))
            if not isinstance(found, Done):
                return
            definition = decode_object(found.body)
            meta = {"name": key, "resourceVersion": resource_version_of(definition)}
            command = apply(
                CUSTOM_RESOURCE_DEFINITIONS,
                {"metadata": meta, "status": status_of(definition)},
                force=True,
                manager=RUNNER,
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
        if _checkpoint_of(migration):
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
        status = {**(migration.get("status") or {}), "resourceVersion": version}
        yield from self._write_status({**migration, "status": status})
        return None

    # --- storage-version-migrator-controller

    def migrate(self, key: Key) -> Reconciliation:
        """Rewrite the objects that are older than the checkpoint."""
        migration = self._migrations.get(key)
        if migration is None or is_terminal(migration) or not _checkpoint_of(migration):
            return None
        checkpoint = _checkpoint_of(migration)
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
        if self._served is None:
            raise Retry("discovery has not completed yet", after=DISCOVERY_RETRY)
        return next((each for each in self._served if (each.group, each.plural) == resource), None)

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
        failed = with_condition(migration, FAILED, "StorageVersionMigrationFailed", message, self._clock.now())
        yield from self._write_status(failed)

    def _write_status(self, migration: Object) -> Step[None]:
        yield from must(update(self._resource, migration, subresource="status"), but=(NotFound,))


def _checkpoint_of(migration: Mapping[str, Any]) -> str:
    return (migration.get("status") or {}).get("resourceVersion") or ""


def _malformed(version: str) -> str:
    return f"resource version is not well formed: {version}"


def _unhandled(error: str) -> str:
    return f"migration encountered unhandled error: {error}"


def its_resource(change: Change, _tables: Tables) -> Iterator[GroupResource]:
    yield resource_of(change.new)


def _every_resource(_served: ServedResource) -> bool:
    return True


def _no_keys(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


def is_enabled(options: Options) -> bool:
    return all(options.feature_gates[gate] for gate in GATES)


def _check_needs(options: Options) -> Iterator[str]:
    """Check what upstream requires at the start of the controller."""
    if is_enabled(options) and not options[GarbageCollectorOptions].enabled:
        yield "storage version migrator requires garbage collector"
    if is_enabled(options) and not options.feature_gates["InOrderInformers"]:
        yield "storage version migrator requires the InOrderInformers feature gate to be enabled"


def migrations_of(options: Options) -> Resource:
    """Return the resource in the version that API servers of the emulated release serve."""
    return STABLE_MIGRATIONS if options.versions.emulation > BINARY else STORAGE_VERSION_MIGRATIONS


def _of_release(spec: ControllerSpec, options: Options) -> ControllerSpec:
    resource = migrations_of(options)
    queues = tuple(
        replace(queue, watches=tuple(replace(watch, resource=resource) for watch in queue.watches))
        for queue in spec.queues
    )
    return replace(spec, queues=queues)


def _build(context: ControllerContext) -> StorageVersionMigrator:
    return StorageVersionMigrator(
        tables=context.tables, clock=context.clock, log=context.log, resource=migrations_of(context.options)
    )


SPEC = ControllerSpec(
    name=NAME,
    aliases=("svm",),
    never_blocks=True,
    enabled_if=is_enabled,
    needs="--feature-gates=StorageVersionMigrator=true",
    start_checks=(_check_needs,),
    qps=lambda options: 20 * options.client_limits.qps,
    burst=lambda options: 100 * options.client_limits.burst,
    queues=(
        Queue(
            NAME,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=itself, interest=SEEN),),
            reconcile=StorageVersionMigrator.migrate,
            concurrency=5,
            terminal=(),
        ),
        Queue(
            CHECKPOINTS,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=itself, interest=SEEN),),
            reconcile=StorageVersionMigrator.set_checkpoint,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            RUNNER,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=its_resource),),
            reconcile=StorageVersionMigrator.run,
            concurrency=1,
            terminal=(),
            reports_as=CHECKPOINTS,  # upstream gives both queues this name
        ),
    ),
    # The garbage collector's tables. Without it there are none, and every migration fails.
    discovers=Discovered(select=_every_resource, to=_no_keys, interest=NOTHING, only_shared=True),
    build=_build,
    adapted=_of_release,
)
