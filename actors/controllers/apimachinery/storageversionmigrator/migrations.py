"""Conditions and status of StorageVersionMigrations, and of the CustomResourceDefinitions that they migrate.

Source: kubernetes v1.36 pkg/controller/storageversionmigrator/{migrationrunner,storageversionmigrator,util}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard

from msgspec import Struct

from kcm.protocols.conditions import find_condition, is_true
from kcm.protocols.messages.outcomes import Outcome, Refused, ServerFailure, Throttled, Unknown
from kcm.protocols.objects import Object, metadata, name_of
from kcm.protocols.times import format_time

RUNNING, SUCCEEDED, FAILED, MIGRATING = "Running", "Succeeded", "Failed", "StorageMigrating"


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
    return is_true((obj.get("status") or {}).get("conditions"), type_)


def is_terminal(migration: Mapping[str, Any]) -> bool:
    return has_condition(migration, SUCCEEDED) or has_condition(migration, FAILED)


def with_condition(migration: Mapping[str, Any], type_: str, reason: str, message: str, now: float) -> Object:
    """Return a copy with an additional condition that is True; unchanged if the condition is True or False already.

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
    conditions = [
        done if condition.get("type") == RUNNING else condition for condition in status.get("conditions") or ()
    ]
    return {**migration, "status": {**status, "conditions": conditions}}


class RunnerPlan(Struct, frozen=True):
    """Next steps for the migrations of a resource.

    ended: migrations that have ended and are still marked as running.
    promoted: the migration to start; None if no migration may start now.
    """

    ended: tuple[Object, ...]
    promoted: Object | None


def runner_plan(migrations: Iterable[Object], resource: GroupResource) -> RunnerPlan:
    """Choose the next migration of a resource: the oldest, unless another migration of the resource is running.

    Source: getSVMsForResource.
    """
    of_resource = [migration for migration in migrations if resource_of(migration) == resource]
    running = [migration for migration in of_resource if has_condition(migration, RUNNING)]
    ended = [migration for migration in running if is_terminal(migration)]
    waiting: list[Object] = []
    if len(ended) == len(running):
        waiting = [
            migration
            for migration in of_resource
            if not has_condition(migration, RUNNING) and not is_terminal(migration)
        ]
    return RunnerPlan(tuple(sorted(ended, key=name_of)), min(waiting, key=_age, default=None))


def _age(migration: Mapping[str, Any]) -> tuple[str, str]:
    return metadata(migration).get("creationTimestamp") or "", name_of(migration)


def started_status(definition: Mapping[str, Any], migration: str, now: float) -> Object:
    """Return the status of a CustomResourceDefinition to apply when a migration starts. Source: markAsActive."""
    message = _running_message(migration)
    condition = _migrating(definition, status="True", reason="MigrationRunning", message=message, now=now)
    return {"conditions": [condition], **_stored(definition)}


def ended_status(definition: Mapping[str, Any], migration: str, *, succeeded: bool, now: float) -> Object | None:
    """Return the status of a CustomResourceDefinition to apply when a migration has ended.

    If the definition has not changed meanwhile, only its storage version remains in storedVersions, also after a failed
    migration, as upstream.

    Returns None if the definition is not marked as being migrated by this migration: then its end has been recorded
    already, or another migration runs. Upstream applies the end again, and compares the generation that the first end
    has recorded. So it removes the old versions from a definition that did change during the migration.

    Source: finishCRDMigration.
    """
    spec, status = definition.get("spec") or {}, definition.get("status") or {}
    known = find_condition(status.get("conditions"), MIGRATING)
    if known is not None and (known.get("status"), known.get("message")) != ("True", _running_message(migration)):
        return None
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


def _running_message(migration: str) -> str:
    return f"Migration {migration} is running"


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


def checkpoint_of(migration: Mapping[str, Any]) -> str:
    """Return the resourceVersion up to which objects are migrated; "" if it was not determined yet."""
    return (migration.get("status") or {}).get("resourceVersion") or ""
